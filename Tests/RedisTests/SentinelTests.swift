import Base
import Redis
import TestKit
import Testing

@Suite("Redis through Sentinels", .timeLimit(.minutes(2)))
struct SentinelTests {
    /// An address of Sentinels at these ports.
    static func address(_ ports: [Int], master: String = SentinelCluster.name) -> RedisAddress {
        let hosts = ports.map { RedisAddress.Endpoint(host: "127.0.0.1", port: $0) }
        return RedisAddress(place: .sentinels(hosts, master: master))
    }

    @Test("the master is found, and after a failover the next call finds the new one")
    func failover() async throws {
        let cluster = try await SentinelCluster()
        let connection = RedisConnection(try cluster.address(), name: "tester")
        try connection.command("SET", "a", "1")
        #expect(try cluster.servers[0].command("GET", "a").string == "1")
        let identity = connection.identity
        let master = try await cluster.failover()
        #expect(master.port == cluster.servers[1].port)
        // The old master breaks the connection, or refuses to write, once it is told.
        try await eventually("the connection writes to the new master") {
            _ = try? connection.command("SET", "b", "2")
            return try master.command("GET", "b").string == "2"
        }
        #expect(connection.generation >= 2)
        #expect(connection.identity != identity)
        #expect(try connection.command("GET", "a").string == "1")
    }

    @Test("a Sentinel that is down costs a second at most, and then the others are asked first")
    func down() throws {
        let server = try RedisServer()
        let sentinels = try (0..<2).map { _ in try Sentinel(port: server.port) }
        sentinels[0].freeze()
        let connection = RedisConnection(Self.address(sentinels.map(\.port)))
        #expect(try connection.command("PING").string == "PONG")
        connection.close()
        let start = Instant.now()
        #expect(try connection.command("PING").string == "PONG")
        #expect(Instant.now() - start < Nanoseconds.seconds(1))
    }

    @Test("when no Sentinel helps, the message says what each of them said")
    func unhelpful() throws {
        let server = try RedisServer()
        let knowing = try Sentinel(port: server.port)
        let other = try Sentinel(of: "other", port: server.port)
        let absent = try RedisServer.freePort()
        server.kill()
        let connection = RedisConnection(
            Self.address([absent, other.port, server.port, knowing.port]))
        let error = try #require(throws: RedisError.self) { try connection.connect() }
        #expect(error.isTransient)
        let text = error.description
        #expect(text.contains("the Sentinel at 127.0.0.1:\(absent) cannot be reached"))
        #expect(text.contains("the Sentinel at 127.0.0.1:\(other.port) does not know the name"))
        #expect(
            text.contains("at 127.0.0.1:\(knowing.port) names 127.0.0.1:\(server.port), but"))
        #expect(text.contains("SENTINEL MASTER \(SentinelCluster.name)"))
    }

    @Test("a Sentinel that names a replica is passed over, and alone it is trouble that may pass")
    func stale() throws {
        let master = try RedisServer()
        let replica = try RedisServer(replicaOf: master)
        // Asked for a vote it does not get, it never acts; like one that was cut off, it takes the
        // old master for the master.
        let stale = try Sentinel(port: replica.port, quorum: 9)
        let error = try #require(throws: RedisError.self) {
            try RedisConnection(Self.address([stale.port])).connect()
        }
        #expect(error.isTransient)
        #expect(error.description.contains("names 127.0.0.1:\(replica.port), but"))
        #expect(error.description.contains("is a replica of"))
        let good = try Sentinel(port: master.port)
        let connection = RedisConnection(Self.address([stale.port, good.port]))
        try connection.command("SET", "a", "1")
        #expect(try master.command("GET", "a").string == "1")
    }

    @Test("Sentinels get credentials of their own, and those of the master where they want any")
    func credentials() throws {
        let server = try RedisServer()
        try server.command("CONFIG", "SET", "requirepass", "secret")
        let auth = ["sentinel auth-pass \(SentinelCluster.name) secret"]
        let same = try Sentinel(port: server.port, settings: auth + ["requirepass secret"])
        let own = try Sentinel(port: server.port, settings: auth + ["requirepass own"])
        let free = try Sentinel(port: server.port, settings: auth)
        for sentinel in [same, free] {
            var address = Self.address([sentinel.port])
            address.password = "secret"
            #expect(try RedisConnection(address).command("PING").string == "PONG")
        }
        var address = Self.address([own.port])
        address.password = "secret"
        let error = #expect(throws: RedisError.self) { try RedisConnection(address).connect() }
        #expect(error?.isTransient == true)
        #expect(error?.description.contains("sentinel_password") == true)
        address.sentinelCredentials = .init(user: "default", password: "own")
        #expect(try RedisConnection(address).command("PING").string == "PONG")
    }

    @Test("Sentinel and master behind TLS are both checked")
    func encrypted() async throws {
        let certificates = try RedisCertificates()
        let redis = try SecureRedis(certificates)
        let port = try RedisServer.freePort()
        let sentinel = try Sentinel(
            port: redis.port,
            settings: certificates.settings(port: port).map { "\($0.0) \($0.1)" } + [
                "tls-replication yes"
            ])
        defer { sentinel.kill() }
        var address = Self.address([port])
        address.isEncrypted = true
        address.files = certificates.files()
        let connection = RedisConnection(address)
        try await eventually("the Sentinel answers") { (try? connection.connect()) != nil }
        #expect(try connection.command("PING").string == "PONG")
        let others = try RedisCertificates()
        address.files = others.files()
        let error = #expect(throws: RedisError.self) { try RedisConnection(address).connect() }
        #expect(error?.description.contains("the Sentinel at 127.0.0.1:\(port)") == true)
        #expect(error?.description.contains("certificate is refused") == true)
    }

    @Test("a Sentinel in the place of a Redis is recognized")
    func confused() throws {
        let server = try RedisServer()
        let sentinel = try Sentinel(port: server.port)
        let error = #expect(throws: RedisError.self) {
            try RedisConnection(RedisAddress(host: "127.0.0.1", port: sentinel.port)).connect()
        }
        #expect(error?.description.contains("redis+sentinel://") == true)
        let other = #expect(throws: RedisError.self) {
            try RedisConnection(Self.address([server.port])).connect()
        }
        #expect(other?.description.contains("no Sentinel") == true)
    }
}
