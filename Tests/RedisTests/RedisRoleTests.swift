import Base
import TestKit
import Testing

@testable import Redis

@Suite("Whether a Redis is the right one", .timeLimit(.minutes(1)))
struct RedisRoleTests {
    @Test("a replica is refused as trouble that may pass, with its master's address")
    func replica() throws {
        let master = try RedisServer()
        let replica = try RedisServer(replicaOf: master)
        let connection = replica.connection()
        let error = #expect(throws: RedisError.self) { try connection.command("PING") }
        #expect(error?.isTransient == true)
        #expect(error?.description.contains("replica of 127.0.0.1:\(master.port)") == true)
        #expect(!connection.isConnected)
        try replica.command("REPLICAOF", "NO", "ONE")
        #expect(try connection.command("PING").string == "PONG")
    }

    @Test("READONLY, alone or in a pipeline, is transient and closes the connection")
    func readOnly() throws {
        let master = try RedisServer()
        let server = try RedisServer()
        let connection = server.connection()
        let script = RedisScript(
            name: "set", source: Array("#!lua flags=allow-oom\nreturn redis.call('INCR','a')".utf8))
        _ = try connection.run(script, keys: [], arguments: [])
        try server.command("REPLICAOF", "127.0.0.1", "\(master.port)")
        let replies = try connection.run([(script, [], []), (script, [], [])])
        for reply in replies {
            guard case .error(let text) = reply else {
                Issue.record("an error was expected, not \(reply)")
                continue
            }
            #expect(RedisError(.refused, text).word == "READONLY")
        }
        #expect(!connection.isConnected)
        let refused = #expect(throws: RedisError.self) { try connection.command("SET", "a", "1") }
        #expect(refused?.description.contains("is a replica") == true)
        try server.command("REPLICAOF", "NO", "ONE")
        try connection.command("SET", "a", "1")
        try server.command("REPLICAOF", "127.0.0.1", "\(master.port)")
        let single = #expect(throws: RedisError.self) { try connection.command("SET", "a", "1") }
        #expect(single?.word == "READONLY")
        #expect(single?.isTransient == true)
        #expect(!connection.isConnected)
    }

    @Test("a call that waits while its server is demoted ends with a transient error")
    func unblocked() throws {
        let master = try RedisServer()
        let server = try RedisServer()
        let ended = Mailbox<RedisError?>(limit: 1)
        let address = server.address
        let thread = Thread("waiter") {
            do throws(RedisError) {
                try RedisConnection(address, name: "waiter").command(
                    ["BLMOVE", "a", "b", "RIGHT", "LEFT", "30"].map { Array($0.utf8) },
                    within: Nanoseconds.seconds(35))
                ended.add(nil)
            } catch {
                ended.add(error)
            }
        }
        try blockUntil("it waits") {
            try server.command("INFO", "clients").string?.contains("blocked_clients:1") == true
        }
        try server.command("REPLICAOF", "127.0.0.1", "\(master.port)")
        thread.join()
        let error = try #require(ended.take(waitingAtMost: 0).first)
        #expect(error?.word == "UNBLOCKED")
        #expect(error?.isTransient == true)
        #expect(error?.isMisplaced == true)
    }

    @Test("out of memory is transient and keeps the connection")
    func outOfMemory() throws {
        let server = try RedisServer(options: ["--maxmemory", "1"])
        let connection = server.connection()
        let error = #expect(throws: RedisError.self) { try connection.command("SET", "a", "1") }
        #expect(error?.word == "OOM")
        #expect(error?.isTransient == true)
        #expect(connection.isConnected)
        for word in ["MISCONF", "BUSY", "TRYAGAIN"] {
            #expect(RedisError(.refused, "\(word) x").isTransient)
            #expect(!RedisError(.refused, "\(word) x").isMisplaced)
        }
        for word in ["LOADING", "MASTERDOWN", "NOREPLICAS", "CLUSTERDOWN"] {
            #expect(RedisError(.refused, "\(word) x").isTransient)
            #expect(RedisError(.refused, "\(word) x").isMisplaced)
        }
    }

    @Test(
        "a user who may not run what signing in needs is told which command to allow",
        arguments: [("role", "ROLE"), ("info", "INFO"), ("client|setname", "CLIENT SETNAME")])
    func rights(rule: String, command: String) throws {
        let server = try RedisServer()
        try server.command("ACL", "SETUSER", "peal", "on", ">p", "~*", "+@all", "-\(rule)")
        var address = server.address
        (address.user, address.password) = ("peal", "p")
        let error = #expect(throws: RedisError.self) { try RedisConnection(address).connect() }
        #expect(error?.code == .unsuitable)
        #expect(error?.description.contains("the user peal run \(command);") == true)
        #expect(error?.description.contains("+\(rule)") == true)
    }

    @Test("a password that is wrong at first is a wrong setting, later it is trouble that may pass")
    func password() throws {
        let server = try RedisServer()
        let connection = server.connection()
        try connection.connect()
        try server.command("CONFIG", "SET", "requirepass", "secret")
        connection.close()
        let later = #expect(throws: RedisError.self) { try connection.connect() }
        #expect(later?.isTransient == true)
        #expect(later?.description.contains("wants a password") == true)
        let first = #expect(throws: RedisError.self) { try server.connection().connect() }
        #expect(first?.code == .unsuitable)
    }

    @Test("a server without room for more clients is trouble that may pass")
    func full() throws {
        let server = try RedisServer(options: ["--maxclients", "1"])
        let first = server.connection()
        try eventuallyConnected(first)
        let error = #expect(throws: RedisError.self) { try server.connection().connect() }
        #expect(error?.isTransient == true)
        #expect(error?.description.contains("max number of clients") == true)
    }

    /// The fixture's own connection may still be open for a moment.
    private func eventuallyConnected(_ connection: RedisConnection) throws {
        try blockUntil("there is room") { (try? connection.connect()) != nil }
    }

    @Test("a Redis that may evict keys is unsuitable unless that is allowed")
    func eviction() throws {
        let server = try RedisServer(options: ["--maxmemory-policy", "allkeys-lru"])
        let connection = server.connection()
        let error = #expect(throws: RedisError.self) {
            try connection.requireSuitable(namespace: "peal", allowsEviction: false)
        }
        #expect(error?.code == .unsuitable)
        #expect(error?.description.contains("allkeys-lru") == true)
        #expect(error?.description.contains("--allow-eviction") == true)
        try connection.requireSuitable(namespace: "peal", allowsEviction: true)
        try server.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        try connection.requireSuitable(namespace: "peal", allowsEviction: false)
    }

    @Test("on a cluster a namespace without a hash tag is unsuitable")
    func cluster() throws {
        let server = try RedisServer(options: ["--cluster-enabled", "yes"])
        let connection = server.connection()
        for name in ["peal", "{}peal", "}peal{"] {
            let error = #expect(throws: RedisError.self) {
                try connection.requireSuitable(namespace: name, allowsEviction: false)
            }
            #expect(error?.code == .unsuitable)
            #expect(error?.description.contains("hash tag") == true)
        }
        try connection.requireSuitable(namespace: "{peal}", allowsEviction: false)
        try connection.requireSuitable(namespace: "a{b}c", allowsEviction: false)
    }
}
