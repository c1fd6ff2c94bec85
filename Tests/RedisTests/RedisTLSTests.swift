import Redis
import TestKit
import Testing

@Suite("Redis behind TLS", .timeLimit(.minutes(1)))
struct RedisTLSTests {
    /// The error of a first connection.
    static func failure(_ address: RedisAddress) -> RedisError? {
        #expect(throws: RedisError.self) { try RedisConnection(address).connect() }
    }

    @Test("a server with a certificate of the own authority is used, by name and by address")
    func trusted() throws {
        let redis = try SecureRedis(RedisCertificates())
        for url in ["rediss://localhost:PORT", "rediss://127.0.0.1:PORT/2"] {
            let connection = RedisConnection(try redis.address(url))
            #expect(try connection.command("PING").string == "PONG")
            // Larger than one TLS record and one read, in both directions.
            let bytes = (0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
            try connection.command([Array("SET".utf8), Array("big".utf8), bytes])
            #expect(try connection.command("GET", "big").bytes == bytes)
        }
    }

    @Test("a server that shows the wrong certificate is refused for good, and the message says why")
    func refused() throws {
        let redis = try SecureRedis(RedisCertificates())
        let other = try RedisCertificates()
        for files in [other.files(), RedisAddress.Files()] {
            let error = Self.failure(try redis.address(files: files))
            #expect(error?.code == .unsuitable)
            #expect(error?.description.contains("localhost:\(redis.port)") == true)
            #expect(error?.description.contains("certificate is refused") == true)
            #expect(error?.description.contains("--redis-ca") == true)
        }
        let elsewhere = try SecureRedis(RedisCertificates(names: ["redis.example"]))
        let error = Self.failure(try elsewhere.address())
        #expect(error?.code == .unsuitable)
        #expect(error?.description.contains("name localhost") == true)
    }

    @Test("a server that asks for a certificate is shown one, and without it the message says so")
    func client() throws {
        let redis = try SecureRedis(RedisCertificates(), requiresCertificate: true)
        let files = redis.certificates.files(withCertificate: true)
        let connection = RedisConnection(try redis.address(files: files))
        #expect(try connection.command("PING").string == "PONG")
        let missing = Self.failure(try redis.address())
        #expect(missing?.code == .unsuitable)
        #expect(missing?.description.contains("--redis-cert") == true)
        var foreign = try RedisCertificates().files(withCertificate: true)
        foreign.authority = redis.certificates.authority
        let refused = Self.failure(try redis.address(files: foreign))
        #expect(refused?.code == .unsuitable)
        #expect(refused?.description.contains("--redis-cert") == true)
    }

    @Test("files that cannot be read are named, and renewed ones are used at the next connect")
    func files() throws {
        let redis = try SecureRedis(RedisCertificates(), requiresCertificate: true)
        let folder = try TemporaryDirectory()
        let own = redis.certificates.directory
        let files = RedisAddress.Files(
            authority: own.file("ca.pem"), certificate: folder.file("client.pem"),
            key: folder.file("client.key"))
        let connection = RedisConnection(try redis.address(files: files))
        let error = #expect(throws: RedisError.self) { try connection.connect() }
        #expect(error?.code == .unsuitable)
        #expect(error?.description.contains(folder.file("client.pem")) == true)
        for name in ["client.pem", "client.key"] {
            try folder.write(name, try own.bytes(name))
        }
        try connection.command("PING")
        connection.close()
        try folder.write("client.pem", "half of a new one")
        #expect(try connection.command("PING").string == "PONG")
        #expect(connection.generation == 2)
    }

    @Test("a port that speaks TLS and one that does not are told apart in the message")
    func mistaken() throws {
        let redis = try SecureRedis(RedisCertificates())
        var plain = try redis.address()
        plain.isEncrypted = false
        let first = Self.failure(plain)
        #expect(first?.isTransient == true)
        #expect(first?.description.contains("rediss://") == true)
        var encrypted = redis.server.address
        encrypted.isEncrypted = true
        encrypted.files = redis.certificates.files()
        let second = Self.failure(encrypted)
        #expect(second?.description.contains("speak TLS") == true)
    }

    @Test("a user of an ACL signs in, with a password of any characters")
    func user() throws {
        let redis = try SecureRedis(
            RedisCertificates(), users: ["user peal on >p@ss:w/ord? ~* &* +@all"])
        let url = "rediss://peal:p%40ss%3Aw%2Ford%3F@localhost:PORT"
        let connection = RedisConnection(try redis.address(url))
        #expect(try connection.command("ACL", "WHOAMI").string == "peal")
        let error = Self.failure(try redis.address("rediss://peal:wrong@localhost:PORT"))
        #expect(error?.code == .unsuitable)
        #expect(error?.description.contains("WRONGPASS") == true)
        #expect(error?.description.contains("wrong@") == false)
    }
}
