/// Where Redis is: `redis://[user:password@]host[:port][/database]`.
package struct RedisAddress: Sendable, Equatable, CustomStringConvertible {
    package var host: String
    package var port: Int
    package var user: String?
    package var password: String?
    package var database: Int

    package init(
        host: String, port: Int, user: String? = nil, password: String? = nil, database: Int = 0
    ) {
        self.host = host
        self.port = port
        self.user = user
        self.password = password
        self.database = database
    }

    /// Reads a URL; throws a sentence that says what is wrong with it.
    package init(parsing text: String) throws(RedisError) {
        func bad(_ why: String) -> RedisError {
            RedisError(
                .unsuitable, "\(why); write redis://[user:password@]host[:port][/database]")
        }
        guard text.hasPrefix("redis://") else { throw bad("the Redis address is no redis:// URL") }
        var rest = text.dropFirst("redis://".count)
        user = nil
        password = nil
        if let at = rest.lastIndex(of: "@") {
            let parts = rest[..<at].split(
                separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            if parts.count == 2 {
                user = parts[0].isEmpty ? nil : RedisAddress.decoded(parts[0])
                password = RedisAddress.decoded(parts[1])
            } else {
                password = RedisAddress.decoded(rest[..<at])
            }
            rest = rest[rest.index(after: at)...]
        }
        database = 0
        if let slash = rest.firstIndex(of: "/") {
            let number = rest[rest.index(after: slash)...]
            guard number.isEmpty || (Int(number).map { $0 >= 0 } ?? false) else {
                throw bad("the database of the Redis address is no number")
            }
            database = Int(number) ?? 0
            rest = rest[..<slash]
        }
        port = 6379
        if rest.hasPrefix("["), let close = rest.firstIndex(of: "]") {
            host = String(rest[rest.index(after: rest.startIndex)..<close])
            rest = rest[rest.index(after: close)...]
        } else {
            let end = rest.firstIndex(of: ":") ?? rest.endIndex
            host = String(rest[..<end])
            rest = rest[end...]
        }
        if rest.hasPrefix(":") {
            guard let number = Int(rest.dropFirst()), (1...65_535).contains(number) else {
                throw bad("the port of the Redis address is not in 1 to 65535")
            }
            port = number
        } else if !rest.isEmpty {
            throw bad("the Redis address has text after the host")
        }
        guard !host.isEmpty else { throw bad("the Redis address has no host") }
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

    /// Host and port, never the password.
    package var description: String { "\(host):\(port)" }
}
