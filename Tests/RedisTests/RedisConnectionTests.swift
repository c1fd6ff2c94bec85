import Base
import Redis
import TestKit
import Testing

@Suite("Redis connection", .timeLimit(.minutes(1)))
struct RedisConnectionTests {
    static func words(_ words: String...) -> [[UInt8]] { words.map { Array($0.utf8) } }

    @Test("a pipeline has one reply for each command, error replies in their place")
    func pipeline() throws {
        let server = try RedisServer()
        let connection = server.connection()
        let replies = try connection.pipeline([
            Self.words("SET", "a", "1"), Self.words("INCR", "a"), Self.words("LPUSH", "a", "x"),
            Self.words("GET", "none"), Self.words("GET", "a"),
        ])
        #expect(replies.count == 5)
        #expect(replies[0].string == "OK")
        #expect(replies[1] == .integer(2))
        guard case .error(let text) = replies[2] else {
            Issue.record("an error was expected, not \(replies[2])")
            return
        }
        #expect(text.hasPrefix("WRONGTYPE"))
        #expect(replies[3] == .null)
        #expect(replies[4].integer == 2)
        #expect(connection.generation == 1)
    }

    @Test("an error reply to a single command is thrown with its word and keeps the connection")
    func errorReply() throws {
        let server = try RedisServer()
        let connection = server.connection()
        let error = #expect(throws: RedisError.self) { try connection.command("NOSUCH") }
        #expect(error?.code == .refused)
        #expect(error?.word == "ERR")
        #expect(error?.isTransient == false)
        #expect(connection.isConnected)
        #expect(RedisError(.refused, "OOM command not allowed").isTransient)
        #expect(RedisError(.lost, "x").isTransient && RedisError(.lost, "OOM x").word == "")
    }

    @Test("large, binary and deeply nested replies arrive whole")
    func large() throws {
        let server = try RedisServer()
        let connection = server.connection()
        let bytes = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        try connection.command([Array("SET".utf8), Array("big".utf8), bytes])
        #expect(try connection.command("GET", "big").bytes == bytes)
        let script = "local t = 'leaf' for _ = 1, 6 do t = { t, {}, false } end return t"
        var reply = try connection.command("EVAL", script, "0")
        for _ in 0..<6 {
            #expect(reply.array?.count == 3)
            #expect(reply.array?[1] == .array([]))
            #expect(reply.array?[2] == .null)
            reply = reply.array?.first ?? .null
        }
        #expect(reply.string == "leaf")
        let many = try connection.pipeline(
            (0..<5000).map { Self.words("RPUSH", "list", "\($0)") }
                + [Self.words("LRANGE", "list", "0", "-1")])
        #expect(many.last?.array?.count == 5000)
        #expect(many.last?.array?.last?.string == "4999")
    }

    @Test("after a restart of the server one call fails, the next connects again")
    func reconnect() throws {
        let server = try RedisServer()
        let connection = server.connection()
        try connection.command("PING")
        try server.restart()
        let error = #expect(throws: RedisError.self) { try connection.command("PING") }
        #expect(error?.code == .lost)
        #expect(!connection.isConnected)
        #expect(try connection.command("PING").string == "PONG")
        #expect(connection.generation == 2)
    }

    @Test("a server that is not there is unreachable, with its address in the message")
    func unreachable() throws {
        let server = try RedisServer()
        let connection = server.connection()
        server.kill()
        let error = #expect(throws: RedisError.self) { try connection.command("PING") }
        #expect(error?.code == .unreachable)
        #expect(error?.description.contains("127.0.0.1:\(server.port)") == true)
    }

    @Test("a stopped server runs into the deadline, and a late reply answers nothing else")
    func deadline() throws {
        let server = try RedisServer()
        let connection = server.connection()
        try connection.command("SET", "a", "old")
        server.freeze()
        let start = Instant.now()
        let error = #expect(throws: RedisError.self) {
            try connection.command(Self.words("GET", "a"), within: Nanoseconds.milliseconds(50))
        }
        #expect(error?.code == .lost)
        #expect(Instant.now() - start >= Nanoseconds.milliseconds(50))
        server.thaw()
        #expect(try connection.command("ECHO", "new").string == "new")
    }

    @Test("a password and a database are used, a wrong password is refused for good")
    func signIn() throws {
        let server = try RedisServer()
        try server.command("CONFIG", "SET", "requirepass", "secret")
        var address = server.address
        let refused = #expect(throws: RedisError.self) {
            try RedisConnection(address).command("PING")
        }
        #expect(refused?.isTransient == false)
        address.password = "wrong"
        #expect(throws: RedisError.self) { try RedisConnection(address).command("PING") }
        address.password = "secret"
        address.database = 3
        let connection = RedisConnection(address, name: "tester")
        try connection.command("SET", "a", "1")
        #expect(try connection.command("CLIENT", "GETNAME").string == "tester")
        try connection.command("SELECT", "0")
        #expect(try connection.command("GET", "a") == .null)
    }

    @Test("scripts are loaded by need, also several in one round trip and after a flush")
    func scripts() throws {
        let server = try RedisServer()
        let connection = server.connection()
        let echo = RedisScript(name: "echo", source: Array("return ARGV[1]".utf8))
        let key = RedisScript(name: "key", source: Array("return KEYS[1]".utf8))
        #expect(try connection.run(echo, keys: [], arguments: Self.words("a")).string == "a")
        try connection.command("SCRIPT", "FLUSH")
        let replies = try connection.run([
            (echo, [], Self.words("b")), (key, Self.words("k"), []),
        ])
        #expect(replies.map(\.string) == ["b", "k"])
        let before = connection.roundTrips
        _ = try connection.run([(echo, [], Self.words("c")), (key, Self.words("k"), [])])
        #expect(connection.roundTrips == before + 1)
        let refusal = Array("return redis.error_reply('ERR no')".utf8)
        let bad = RedisScript(name: "bad", source: refusal)
        #expect(throws: RedisError.self) { try connection.run(bad, keys: [], arguments: []) }
    }
    @Test("scripts that are flushed as fast as they are loaded are trouble that passes")
    func flushedScripts() throws {
        let server = try RedisServer()
        let stop = Mailbox<Void>(limit: 1)
        let flusher = Base.Thread("flusher") {
            let connection = server.connection()
            let flushes = (0..<50).map { _ in Self.words("SCRIPT", "FLUSH") }
            while !stop.isClosed { _ = try? connection.pipeline(flushes) }
        }
        let script = RedisScript(name: "one", source: Array("return 1".utf8))
        let connection = server.connection()
        var troubles = 0
        for _ in 0..<300 {
            do throws(RedisError) {
                let reply = try connection.run([(script, [], [])])
                #expect(reply == [.integer(1)])
            } catch {
                #expect(error.isTransient, "\(error)")
                troubles += 1
            }
        }
        stop.close()
        flusher.join()
        #expect(troubles > 0)
        #expect(try connection.run([(script, [], [])]) == [.integer(1)])
    }
}
