import Redis
import Testing

/// An address of Sentinels at ports of hosts `a`, `b`, ….
private func guided(
    _ ports: [Int], _ master: String, _ more: (inout RedisAddress) -> Void = { _ in }
) -> RedisAddress {
    let hosts = zip(["a", "b", "c"], ports).map {
        RedisAddress.Endpoint(host: $0, port: $1)
    }
    var address = RedisAddress(place: .sentinels(hosts, master: master))
    more(&address)
    return address
}

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
            ("redis://u:a?b@h", RedisAddress(host: "h", port: 6379, user: "u", password: "a?b")),
        ])
    func good(text: String, address: RedisAddress) throws {
        #expect(try RedisAddress(parsing: text) == address)
        var encrypted = address
        encrypted.isEncrypted = true
        #expect(try RedisAddress(parsing: "rediss" + text.dropFirst(5)) == encrypted)
    }

    @Test(
        "a URL of Sentinels is read with its parts and defaults",
        arguments: [
            ("redis+sentinel://a/m", guided([26_379], "m")),
            ("redis+sentinel://a:1,b,c:3/m", guided([1, 26_379, 3], "m")),
            ("redis+sentinel://a:1,a:1/m", guided([1], "m")),
            ("redis+sentinel://a:1/my%2Fmaster/4", guided([1], "my/master") { $0.database = 4 }),
            ("rediss+sentinel://a:1/m", guided([1], "m") { $0.isEncrypted = true }),
            (
                "redis+sentinel://u:p%3F@a:1/m?sentinel_user=s&sentinel_password=x%26y=z",
                guided([1], "m") {
                    $0.user = "u"
                    $0.password = "p?"
                    $0.sentinelCredentials = .init(user: "s", password: "x&y=z")
                }
            ),
            (
                "redis+sentinel://a:1/m?sentinel_password=p",
                guided([1], "m") { $0.sentinelCredentials = .init(user: nil, password: "p") }
            ),
        ])
    func sentinels(text: String, address: RedisAddress) throws {
        #expect(try RedisAddress(parsing: text) == address)
    }

    @Test(
        "what is no Redis URL is refused with a sentence that says why and shows the form",
        arguments: [
            ("", "no redis:// URL"), ("localhost", "no redis:// URL"),
            ("http://h", "no redis:// URL"), ("redis://", "no host"), ("redis://:6379", "no host"),
            ("redis://h:0", "port"), ("redis://h:65536", "port"), ("redis://h:x", "port"),
            ("redis://h/x", "database"), ("redis://h/-1", "database"),
            ("redis://[::1]x", "text after the host"), ("redis://h:", "port"),
            ("redis://u:p@", "no host"), ("redis://h?x=1", "query"), ("rediss://h:x", "port"),
        ])
    func bad(text: String, why: String) {
        let error = #expect(throws: RedisError.self) { try RedisAddress(parsing: text) }
        #expect(error?.code == .unsuitable)
        #expect(error?.description.contains(why) == true)
        let form = text.hasPrefix("rediss") ? "rediss" : "redis"
        #expect(error?.description.contains("\(form)://[user:password@]host[:port]") == true)
    }

    @Test(
        "what is no URL of Sentinels is refused with a sentence that says why and shows the form",
        arguments: [
            ("redis+sentinel://a:1", "no master"), ("redis+sentinel://a:1/", "no master"),
            ("redis+sentinel://a:1//2", "no master"), ("redis+sentinel:///m", "no host"),
            ("redis+sentinel://a,/m", "no host"), ("redis+sentinel://a:0,b/m", "port"),
            ("redis+sentinel://a/m/x", "database"),
            ("redis+sentinel://a/m?password=p", "unknown option password"),
            ("redis+sentinel://a/m?sentinel_user=s", "without a sentinel_password"),
        ])
    func badSentinels(text: String, why: String) {
        let error = #expect(throws: RedisError.self) { try RedisAddress(parsing: text) }
        #expect(error?.code == .unsuitable)
        #expect(error?.description.contains(why) == true)
        #expect(error?.description.contains("redis+sentinel://[user:password@]host") == true)
    }

    @Test("an address in a message never shows a password")
    func secret() throws {
        #expect(try RedisAddress(parsing: "redis://user:secret@h:1/2").description == "h:1")
        let url = "redis+sentinel://user:secret@a:1,[::1]:2/m?sentinel_password=secret"
        #expect(try RedisAddress(parsing: url).description == "m of a:1,[::1]:2")
        let error = #expect(throws: RedisError.self) {
            try RedisAddress(parsing: "redis+sentinel://user:secret@a:1")
        }
        #expect(error?.description.contains("secret") == false)
    }
}
