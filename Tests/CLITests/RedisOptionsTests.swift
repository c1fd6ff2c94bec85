import Redis
import Testing

@testable import peal

@Suite("Options for Redis")
struct RedisOptionsTests {
    static let program = Program(commands: [
        Command(name: "look", summary: "Looks.", options: RedisOptions.all) { _ in 0 }
    ])

    static func address(
        _ line: [String], _ environment: [String: String] = [:]
    ) throws -> RedisAddress? {
        let request = try program.request(["look"] + line, environment: environment) { _ in [] }
        guard case .run(_, let parsed) = request else { return nil }
        return try RedisOptions.address(parsed)
    }

    @Test("the files for TLS come from flags or the environment")
    func files() throws {
        let address = try Self.address(
            ["--redis", "rediss://h", "--redis-cert", "c.pem"],
            ["PEAL_REDIS_CA": "ca.pem", "PEAL_REDIS_KEY": "c.key"])
        #expect(
            address?.files
                == RedisAddress.Files(authority: "ca.pem", certificate: "c.pem", key: "c.key"))
        #expect(try Self.address(["--redis", "rediss+sentinel://h/m"])?.files == .init())
    }

    @Test("a certificate without a key is refused, and the other way round")
    func half() {
        for (one, other) in [("cert", "key"), ("key", "cert")] {
            let error = #expect(throws: Failure.self) {
                try Self.address(["--redis", "rediss://h", "--redis-\(one)", "f"])
            }
            #expect(error?.code == 64)
            #expect(error?.message.contains("give --redis-\(other) as well, or neither") == true)
        }
    }

    @Test("files for TLS without TLS are refused, since they would protect nothing")
    func needless() {
        let error = #expect(throws: Failure.self) {
            try Self.address(["--redis", "redis://h"], ["PEAL_REDIS_CA": "ca.pem"])
        }
        #expect(error?.code == 78)
        #expect(error?.message.contains("rediss://") == true)
    }

    @Test("a wrong URL is refused without the password in it")
    func secret() {
        let error = #expect(throws: Failure.self) {
            try Self.address([], ["PEAL_REDIS": "redis://u:secret@h:x"])
        }
        #expect(error?.code == 78)
        #expect(error?.message.contains("PEAL_REDIS: the port") == true)
        #expect(error?.message.contains("secret") == false)
    }
}
