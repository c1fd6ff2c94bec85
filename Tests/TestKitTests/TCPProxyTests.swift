import Base
import Redis
import TestKit
import Testing

@Suite("The proxy", .timeLimit(.minutes(1)))
struct TCPProxyTests {
    private let redis: RedisServer
    private let proxy: TCPProxy

    init() throws {
        redis = try RedisServer()
        proxy = try TCPProxy(to: redis.port)
    }

    private func connection() -> RedisConnection {
        RedisConnection(RedisAddress(host: "127.0.0.1", port: proxy.port))
    }

    /// A command that gives up after 100 ms.
    private func briefly(_ connection: RedisConnection, _ words: String...) throws -> RedisReply {
        try connection.command(words.map { Array($0.utf8) }, within: 100_000_000)
    }

    @Test("passes large requests and replies unchanged")
    func pass() throws {
        let text = String(repeating: "0123456789abcdef", count: 400_000)
        let connection = connection()
        try connection.command("SET", "large", text)
        #expect(try connection.command("GET", "large").string == text)
        #expect(proxy.connections == 1)
    }

    @Test("passes a request on and cuts the connection when its reply is due")
    func replyTo() throws {
        let connection = connection()
        try connection.command("SET", "n", "0")
        proxy.arm(.replyTo(text: "counted"))
        try connection.command("SET", "other", "1")
        #expect(throws: RedisError.self) { try connection.command("INCRBY", "counted", "5") }
        #expect(try redis.command("GET", "counted").string == "5")
        #expect(proxy.cuts == 1)
        // Once: the next one passes on a new connection.
        #expect(try connection.command("INCRBY", "counted", "5").integer == 10)
        #expect(proxy.connections == 2)
    }

    @Test("passes so many bytes of a reply as it is asked for, and not one more")
    func partly() throws {
        let connection = connection()
        try connection.command("SET", "half", "abcdef")
        proxy.arm(.replyTo(text: "half", passing: 7))
        #expect(throws: RedisError.self) { try connection.command("GET", "half") }
        #expect(proxy.cuts == 1)
        try connection.command("PING")
        proxy.arm(.afterReplyBytes(7))
        // The reply to SET has five bytes, which count.
        try connection.command("SET", "half", "abcdef")
        #expect(throws: RedisError.self) { try connection.command("GET", "half") }
        #expect(proxy.cuts == 2)
    }

    @Test("cuts a connection at a reply that contains a text")
    func reply() throws {
        let connection = connection()
        try redis.command("SET", "job", "the wanted one")
        proxy.arm(.reply(text: "wanted"))
        #expect(try connection.command("GET", "nothing").string == nil)
        #expect(throws: RedisError.self) { try connection.command("GET", "job") }
        #expect(try connection.command("GET", "job").string == "the wanted one")
        #expect(proxy.cuts == 1)
    }

    @Test("swallows everything, and cuts whoever spoke into it when it ends")
    func blackHole() throws {
        let connection = connection()
        try connection.command("SET", "a", "1")
        proxy.set(.blackHole)
        #expect(throws: RedisError.self) { try briefly(connection, "SET", "a", "2") }
        #expect(throws: RedisError.self) { try briefly(connection, "SET", "a", "2") }
        proxy.set(.pass)
        #expect(try redis.command("GET", "a").string == "1")
        #expect(try connection.command("GET", "a").string == "1")
    }

    @Test("refuses connections and cuts those that stand, until it passes them again")
    func refuse() async throws {
        let connection = connection()
        try connection.command("SET", "a", "1")
        proxy.set(.refuse)
        #expect(throws: RedisError.self) { try connection.command("GET", "a") }
        #expect(throws: RedisError.self) { try connection.command("GET", "a") }
        proxy.set(.pass)
        try await eventually("it listens again") {
            (try? connection.command("GET", "a").string) == "1"
        }
    }

    @Test("cuts all connections at once")
    func cutAll() throws {
        let pair = [connection(), connection()]
        for one in pair { try one.command("PING") }
        proxy.cutAll()
        for one in pair {
            #expect(throws: RedisError.self) { try one.command("PING") }
            try one.command("PING")
        }
        #expect(proxy.connections == 4)
    }

    @Test("delays each direction, and keeps the order")
    func delay() throws {
        let connection = connection()
        try connection.command("PING")
        proxy.set(.delay(milliseconds: 20))
        let start = Instant.now()
        #expect(try connection.command("INCR", "n").integer == 1)
        #expect(Instant.now() - start >= Nanoseconds.milliseconds(40))
        proxy.set(.pass)
        #expect(try connection.command("INCR", "n").integer == 2)
    }

    @Test("limits the bandwidth")
    func limit() throws {
        let connection = connection()
        try connection.command("PING")
        proxy.set(.limit(bytesPerSecond: 100_000))
        let start = Instant.now()
        try connection.command("SET", "a", String(repeating: "x", count: 20_000))
        #expect(Instant.now() - start >= Nanoseconds.milliseconds(200))
        #expect(try redis.command("STRLEN", "a").integer == 20_000)
    }
}
