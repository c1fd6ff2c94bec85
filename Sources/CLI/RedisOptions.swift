internal import JobQueue
internal import Redis

/// The options by which every command finds Peal's keys.
enum RedisOptions {
    static let all: [Option] = [
        Option(
            "redis", "URL", default: "redis://127.0.0.1:6379",
            "Redis: redis://[user:password@]host[:port][/database]."),
        Option(
            "namespace", "NAME", default: "peal",
            "What all keys begin with; on a Redis Cluster it must hold a hash tag, {peal}."),
    ]

    static func address(_ parsed: Parsed) throws -> RedisAddress {
        do throws(RedisError) {
            return try RedisAddress(parsing: try redisText(parsed))
        } catch {
            throw parsed.wrong("redis", "is no address", error.description)
        }
    }

    private static func redisText(_ parsed: Parsed) throws(RedisError) -> String {
        parsed.optionalText("redis") ?? ""
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
            case .unreachable, .lost:
                throw Failure.unavailable("\(error); check --redis and that Redis runs")
            case .refused:
                throw Failure.unavailable("Redis refused: \(error); check its log and settings")
            case .unsuitable: throw Failure.configuration(error.description)
            }
        }
    }
}
