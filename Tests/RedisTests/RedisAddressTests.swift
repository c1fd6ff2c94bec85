import Redis
import Testing

@Suite("Redis address")
struct RedisAddressTests {
    @Test(
        "a URL is read with its parts and defaults",
        arguments: [
            ("redis://localhost", RedisAddress(host: "localhost", port: 6379)),
            ("redis://h:1", RedisAddress(host: "h", port: 1)),
            ("redis://h/", RedisAddress(host: "h", port: 6379)),
            ("redis://h:6380/3", RedisAddress(host: "h", port: 6380, database: 3)),
            ("redis://[::1]:7000/2", RedisAddress(host: "::1", port: 7000, database: 2)),
            ("redis://[::1]", RedisAddress(host: "::1", port: 6379)),
            ("redis://:secret@h", RedisAddress(host: "h", port: 6379, password: "secret")),
            ("redis://secret@h", RedisAddress(host: "h", port: 6379, password: "secret")),
            (
                "redis://user:p%40ss:w%2Ford%@h:9",
                RedisAddress(host: "h", port: 9, user: "user", password: "p@ss:w/ord%")
            ),
            ("redis://u:a@b@h", RedisAddress(host: "h", port: 6379, user: "u", password: "a@b")),
        ])
    func good(text: String, address: RedisAddress) throws {
        #expect(try RedisAddress(parsing: text) == address)
    }

    @Test(
        "what is no Redis URL is refused with a sentence that shows the form",
        arguments: [
            "", "localhost", "http://h", "redis://", "redis://:6379", "redis://h:0",
            "redis://h:65536", "redis://h:x", "redis://h/x", "redis://h/-1", "redis://[::1]x",
            "redis://h:", "redis://u:p@",
        ])
    func bad(text: String) {
        let error = #expect(throws: RedisError.self) { try RedisAddress(parsing: text) }
        #expect(error?.code == .unsuitable)
        #expect(error?.description.contains("redis://[user:password@]host") == true)
    }

    @Test("an address in a message never shows the password")
    func secret() throws {
        let address = try RedisAddress(parsing: "redis://user:secret@h:1/2")
        #expect("\(address)" == "h:1")
    }
}
