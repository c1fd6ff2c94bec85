package import Base

/// At most so many requests in any second on one connection, with a headroom of 10 %.
///
/// Apple documents no such limit; it is the throttle that Peal promises, and the headroom keeps a
/// correct sender from tripping over the clock's jitter. Only accepted requests count.
///
/// | limit | taken in any second | with the simulator 100 ms late |
/// | --- | --- | --- |
/// | 10 | 11 | 12 |
/// | 1500 | 1650 | 1800 |
/// | 0 (off) | all | all |
package struct RateRule {
    private let limit: Int
    /// Times of the latest accepted requests, a ring in order.
    private var times: [Int64] = []
    private var oldest = 0
    private var count = 0

    /// - Parameter limit: requests per second before the headroom; 0 turns the rule off.
    package init(limit: Int) { self.limit = limit }

    /// Requests taken in a second when the simulator was `late` nanoseconds behind in it.
    package func allowance(late: Int64) -> Int {
        (limit * 11 + 9) / 10 + Int(Double(limit) * Double(min(late, 1_000_000_000)) / 1e9)
    }

    /// Whether a request at `now` is within the limit.
    package mutating func admits(at now: Instant, late: Int64 = 0) -> Bool {
        guard limit > 0 else { return true }
        if times.isEmpty { times = Array(repeating: 0, count: allowance(late: 1_000_000_000)) }
        while count > 0, times[oldest] <= now.nanoseconds - 1_000_000_000 {
            oldest = oldest + 1 == times.count ? 0 : oldest + 1
            count -= 1
        }
        guard count < allowance(late: late) else { return false }
        times[(oldest + count) % times.count] = now.nanoseconds
        count += 1
        return true
    }
}

/// How late the simulator itself was within the last second.
///
/// A loop that was held up reads at once what came in over a while. The sender is not to blame for
/// that, so the rate rule adds what could have come in meanwhile.
package struct Lateness {
    /// Shorter delays are ordinary, in nanoseconds.
    package static let ordinary: Int64 = 3_000_000
    /// Delays remembered; beyond it the oldest is forgotten.
    package static let limit = 64
    private var delays: [(at: Instant, length: Int64)] = []
    private var last: Instant?

    package init() {}

    /// Notes that a turn of the loop, due every `interval`, began at `now`.
    package mutating func turn(at now: Instant, interval: Int64) {
        if let last, now - last > interval + Self.ordinary {
            if delays.count >= Self.limit { delays.removeFirst() }
            delays.append((now, now - last - interval))
        }
        last = now
    }

    /// The loop rests; the time until its next turn is no delay.
    package mutating func rest() { last = nil }

    /// Nanoseconds of delay that may still show in the second before `now`.
    package mutating func recent(at now: Instant) -> Int64 {
        guard !delays.isEmpty else { return 0 }
        delays.removeAll { now - $0.at > 1_000_000_000 }
        return delays.reduce(0) { $0 + $1.length }
    }
}
