extension RedisAddress {
    /// Reads a URL; throws a sentence that says what is wrong with it and shows the form.
    package init(parsing text: String) throws(RedisError) {
        var url = try RedisURL(text)
        let credentials = url.takeCredentials()
        let sentinelCredentials = try url.takeSentinelCredentials()
        if url.isSentinel {
            let (master, database) = try url.takeMaster()
            self.init(place: .sentinels(try url.endpoints(), master: master), database: database)
        } else {
            let database = try url.takeDatabase()
            let endpoint = try url.endpoint(url.rest, standardPort: 6379)
            self.init(place: .server(endpoint), database: database)
        }
        user = credentials?.user
        password = credentials?.password
        self.sentinelCredentials = sentinelCredentials
        isEncrypted = url.isEncrypted
    }
}

/// A Redis URL while it is taken apart; what was taken is gone from `rest`.
private struct RedisURL {
    let isSentinel: Bool
    let isEncrypted: Bool
    private(set) var rest: Substring
    private var query: Substring?

    private static let schemes = [
        ("redis://", false, false), ("rediss://", false, true),
        ("redis+sentinel://", true, false), ("rediss+sentinel://", true, true),
    ]

    init(_ text: String) throws(RedisError) {
        guard let scheme = RedisURL.schemes.first(where: { text.hasPrefix($0.0) }) else {
            throw RedisError(
                .unsuitable,
                "the Redis address is no redis:// URL; write "
                    + "redis://[user:password@]host[:port][/database], rediss:// for TLS, or "
                    + "redis+sentinel://host:port,host:port/master-name for Sentinels")
        }
        isSentinel = scheme.1
        isEncrypted = scheme.2
        rest = text.dropFirst(scheme.0.count)
        // A question mark in the password of a plain URL has always been taken as it is.
        let start = isSentinel ? rest.startIndex : rest.lastIndex(of: "@") ?? rest.startIndex
        if let mark = rest[start...].firstIndex(of: "?") {
            query = rest[rest.index(after: mark)...]
            rest = rest[..<mark]
        }
    }

    func bad(_ why: String) -> RedisError {
        let scheme = isEncrypted ? "rediss" : "redis"
        let form =
            isSentinel
            ? "\(scheme)+sentinel://[user:password@]host[:port],host[:port]/master-name[/database]"
            : "\(scheme)://[user:password@]host[:port][/database]"
        return RedisError(.unsuitable, "\(why); write \(form)")
    }

    mutating func takeCredentials() -> RedisAddress.Credentials? {
        guard let at = rest.lastIndex(of: "@") else { return nil }
        defer { rest = rest[rest.index(after: at)...] }
        let parts = rest[..<at].split(
            separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else {
            return .init(user: nil, password: RedisURL.decoded(rest[..<at]))
        }
        return .init(
            user: parts[0].isEmpty ? nil : RedisURL.decoded(parts[0]),
            password: RedisURL.decoded(parts[1]))
    }

    mutating func takeSentinelCredentials() throws(RedisError) -> RedisAddress.Credentials? {
        guard let query else { return nil }
        guard isSentinel else {
            throw bad("the Redis address has a query (?…), which only Sentinel addresses take")
        }
        var values: [String: String] = [:]
        for pair in query.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(parts[0])
            guard name == "sentinel_user" || name == "sentinel_password" else {
                throw bad(
                    "the Redis address has the unknown option \(name) (it takes sentinel_user and "
                        + "sentinel_password; percent-encode @ : / ? & in passwords)")
            }
            values[name] = parts.count == 2 ? RedisURL.decoded(parts[1]) : ""
        }
        guard let password = values["sentinel_password"] else {
            guard values["sentinel_user"] == nil else {
                throw bad("the Redis address has a sentinel_user without a sentinel_password")
            }
            return nil
        }
        return .init(user: values["sentinel_user"], password: password)
    }

    mutating func takeDatabase() throws(RedisError) -> Int {
        guard let slash = rest.firstIndex(of: "/") else { return 0 }
        let text = rest[rest.index(after: slash)...]
        rest = rest[..<slash]
        guard let number = text.isEmpty ? 0 : Int(text), number >= 0 else {
            throw bad("the database of the Redis address is no number")
        }
        return number
    }

    mutating func takeMaster() throws(RedisError) -> (name: String, database: Int) {
        guard let slash = rest.firstIndex(of: "/") else {
            throw bad("the Redis address names no master")
        }
        let hosts = rest[..<slash]
        rest = rest[rest.index(after: slash)...]
        let database = try takeDatabase()
        let name = RedisURL.decoded(rest)
        guard !name.isEmpty else { throw bad("the Redis address names no master") }
        rest = hosts
        return (name, database)
    }

    func endpoints() throws(RedisError) -> [RedisAddress.Endpoint] {
        var result: [RedisAddress.Endpoint] = []
        for part in rest.split(separator: ",", omittingEmptySubsequences: false) {
            let endpoint = try endpoint(part, standardPort: 26_379)
            if !result.contains(endpoint) { result.append(endpoint) }
        }
        return result
    }

    func endpoint(
        _ text: Substring, standardPort: Int
    ) throws(RedisError) -> RedisAddress.Endpoint {
        let host: Substring
        var tail: Substring
        if text.hasPrefix("["), let close = text.firstIndex(of: "]") {
            host = text[text.index(after: text.startIndex)..<close]
            tail = text[text.index(after: close)...]
        } else {
            let end = text.firstIndex(of: ":") ?? text.endIndex
            host = text[..<end]
            tail = text[end...]
        }
        var port = standardPort
        if tail.hasPrefix(":") {
            guard let number = Int(tail.dropFirst()), (1...65_535).contains(number) else {
                throw bad("the port of the Redis address is not in 1 to 65535")
            }
            port = number
            tail = ""
        }
        guard tail.isEmpty else { throw bad("the Redis address has text after the host") }
        guard !host.isEmpty else { throw bad("the Redis address has no host") }
        return RedisAddress.Endpoint(host: String(host), port: port)
    }

    /// Percent-decoded text (RFC 3986 section 2.1).
    private static func decoded(_ text: Substring) -> String {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            if byte == 0x25, rest.count >= 2,
                let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
            {
                bytes.append(value)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
