internal import Base

/// What a pool is doing, for reports.
package struct PoolStatus: Sendable, Equatable {
    /// Connections that take requests.
    package let openConnections: Int
    /// Connections that wait for their last answers.
    package let drainingConnections: Int
    package let wantedConnections: Int
    /// Requests without an outcome.
    package let inFlight: Int
    /// Requests sent in the last full second.
    package let requestsPerSecond: Int
    /// Requests sent since the pool was made.
    package let requests: Int
    /// The newest failure to connect, in words; nil while connections are up.
    package let lastFailure: String?
}

/// Counts events and knows how many there were per second in the last interval of at least one.
struct RateMeter {
    private(set) var total = 0
    private(set) var perSecond = 0
    private var counted = 0
    private var since: Instant

    init(now: Instant) { since = now }

    mutating func add(_ count: Int) { total += count }

    mutating func turn(_ now: Instant) {
        let elapsed = now - since
        guard elapsed >= 1_000_000_000 else { return }
        perSecond = Int(Double(total - counted) * 1e9 / Double(elapsed) + 0.5)
        counted = total
        since = now
    }
}
