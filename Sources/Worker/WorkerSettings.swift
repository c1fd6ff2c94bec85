package import Redis

/// How one worker process runs.
///
/// Every limit has its unit in its name or comment.
package struct WorkerSettings: Sendable {
    package var redis: RedisAddress
    package var namespace = "peal"
    /// What a commit waits for before it counts.
    package var durability = Durability.none
    /// Starts although Redis may evict keys.
    package var allowsEviction = false
    /// Ends when nothing is left to do for any worker.
    package var once = false
    /// Connections to APNs for each app.
    package var connections = 4
    /// Requests in any one second on one connection; 0 for no limit (load tests only).
    package var ratePerConnection = 1500
    /// Seconds that SIGTERM leaves for answers that are under way.
    package var drainSeconds = 25
    /// Seconds to wait for Redis at the start before giving up (exit code 69).
    package var startSeconds = 30
    /// Seconds without an answer after which a request counts as unanswered.
    package var requestTimeoutSeconds = 30
    /// Recipients that a shard is planned for.
    package var shardSize = 20_000
    /// Milliseconds that a campaign stays in Redis after its end.
    package var retainMilliseconds: Int64 = 7 * 86_400_000
    /// The file that says once a second whether the worker is ready; nil for none.
    package var statusFile: String?
    /// The folder that file audiences lie in; nil refuses them.
    package var audienceFolder: String?
    /// A PEM file of roots that APNs' certificate is checked with; nil for the system's.
    package var trustedRoots: String?
    /// Sends to this host and port instead of Apple's (a simulator).
    package var server: AppProfile.Server?
    package var version = ""

    package init(redis: RedisAddress) { self.redis = redis }

    /// Shards that have something to send at a time: as many as connections, so that each commits
    /// often enough.
    var runLimit: Int { connections }
    /// Shards beyond `runLimit` that only a campaign without a shard here may claim, so that a long
    /// campaign does not keep a new one waiting.
    static let extraRuns = 4
    /// Shards beside these that only wait to send again: that must not hold up the next shards.
    static let waitingRuns = 16
}

/// A name for this process among all workers: host, process and a random part.
package enum WorkerID {
    package static func make(host: String, process: Int32) -> String {
        var random = SystemRandomNumberGenerator()
        let tail = String(random.next() & 0xFFFFFF, radix: 16)
        let short = host.prefix { $0 != "." }
        return "\(short)-\(process)-\(tail)"
    }

    /// 64 random bits in hexadecimal: nonces and plan ids.
    package static func nonce() -> String {
        var random = SystemRandomNumberGenerator()
        return String(random.next(), radix: 16)
    }
}
