internal import JobQueue
internal import Redis

/// The options by which every command finds Peal's keys.
enum RedisOptions {
    static let all: [Option] = [
        Option(
            "redis", "URL", default: "redis://127.0.0.1:6379",
            "Redis: redis://[user:password@]host[:port][/database]; rediss:// for TLS; "
                + "redis+sentinel://[user:password@]host[:port],…/master-name[/database] for the "
                + "master that Sentinels name, rediss+sentinel:// with TLS."),
        Option(
            "redis-ca", "FILE",
            "PEM file of the roots that check Redis' certificate; the system's without it."),
        Option(
            "redis-cert", "FILE", "PEM file of the certificate to show to Redis, with its chain."),
        Option("redis-key", "FILE", "PEM file of that certificate's private key."),
        Option(
            "namespace", "NAME", default: "peal",
            "What all keys begin with; on a Redis Cluster it must hold a hash tag, {peal}."),
    ]

    static func address(_ parsed: Parsed) throws -> RedisAddress {
        var address: RedisAddress
        let text = parsed.optionalText("redis") ?? ""
        do throws(RedisError) {
            address = try RedisAddress(parsing: text)
        } catch {
            // The text itself stays out of the message: it may hold a password.
            let origin = parsed.values["redis"]?.origin
            throw Failure(
                code: origin?.code ?? ExitCode.usage,
                "\(origin?.place ?? "--redis"): \(error.description)")
        }
        address.files = RedisAddress.Files(
            authority: parsed.optionalText("redis-ca"),
            certificate: parsed.optionalText("redis-cert"), key: parsed.optionalText("redis-key"))
        for (one, other) in [("redis-cert", "redis-key"), ("redis-key", "redis-cert")]
        where parsed.has(one) && !parsed.has(other) {
            throw parsed.wrong(one, "stands alone", "give --\(other) as well, or neither")
        }
        for name in ["redis-ca", "redis-cert"] where parsed.has(name) && !address.isEncrypted {
            throw parsed.wrong(
                name, "is of no use without TLS", "write --redis with rediss://, or leave it out")
        }
        return address
    }

    static func namespace(_ parsed: Parsed) throws -> String {
        let name = try parsed.text("namespace")
        let isPlain = name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
        guard isPlain, (1...64).contains(name.utf8.count) else {
            throw parsed.wrong("namespace", "is no namespace", "write 1 to 64 visible characters")
        }
        return name
    }

    /// A store for one command.
    static func store(_ parsed: Parsed) throws -> JobStore {
        JobStore(
            RedisConnection(try address(parsed), name: "peal-cli"), namespace: try namespace(parsed)
        )
    }

    /// Runs `body` and turns trouble with Redis into one line and its exit code.
    static func calling<Value>(_ body: () throws -> Value) throws -> Value {
        do {
            return try body()
        } catch let error as RedisError {
            switch error.code {
            case .unreachable, .lost, .unconfirmed:
                throw Failure.unavailable("\(error); check --redis and that Redis runs")
            case .refused:
                throw Failure.unavailable("Redis refused: \(error); check its log and settings")
            case .unsuitable: throw Failure.configuration(error.description)
            }
        }
    }
}
