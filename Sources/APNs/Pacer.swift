package import Base

/// Spaces the requests of one connection evenly, so that no one-second window holds more than its
/// limit.
///
/// With a limit of L, at most b = max(1, ⌈L / 200⌉) requests leave at once and L − b a second are
/// earned: any window of one second holds at most b + (L − b) = L. What was not used in time is
/// lost: a stall is never followed by a burst.
///
/// | limit | at once (b) | earned per second | nanoseconds between two |
/// | --- | --- | --- | --- |
/// | 1 | 1 | just below 1 | 1000000001 |
/// | 10 | 1 | 9 | 111111112 |
/// | 200 | 1 | 199 | 5025126 |
/// | 1000 | 5 | 995 | 1005026 |
/// | 1500 | 8 | 1492 | 670242 |
///
/// Apple names no such limit; 1500 is the figure that this project's operators ask for.
package struct Pacer: Sendable {
    /// Requests in any one-second window; nil for no limit.
    package private(set) var limit: Int?
    /// Requests that may leave at once.
    package private(set) var burst: Int

    /// Nanoseconds between two requests.
    package private(set) var interval: Int64
    /// When the bucket would be full again (the theoretical arrival time of GCRA).
    private var full: Instant
    private var fullBefore: Instant
    private var taken = 0

    /// A pacer that starts with an empty bucket at `now`, so that a new connection does not
    /// burst; nil is no limit.
    package init(limit: Int?, now: Instant) {
        (self.limit, burst, interval) = Pacer.terms(limit)
        full = now + interval * Int64(min(burst, 1 << 20))
        fullBefore = full
    }

    /// Changes the limit from `now` on; the bucket is emptied, so that a change is no burst either.
    package mutating func setLimit(_ limit: Int?, now: Instant) {
        self = Pacer(limit: limit, now: now)
    }

    /// Requests that may leave at `now`, `wanted` at most, and notes that they do.
    package mutating func take(upTo wanted: Int, now: Instant) -> Int {
        guard limit != nil else { return wanted }
        let granted = max(0, min(wanted, available(now)))
        fullBefore = full
        taken = granted
        guard granted > 0 else { return 0 }
        full = max(full, now) + Int64(granted) * interval
        return granted
    }

    /// Gives back what was taken and not used in the same turn.
    package mutating func giveBack(_ count: Int) {
        guard limit != nil, count > 0 else { return }
        precondition(count <= taken, "gave back more than was taken")
        taken -= count
        full = taken == 0 ? fullBefore : full + -Int64(count) * interval
    }

    /// Tells when what was taken last was really written, so that a thread that was held up in
    /// between does not bring it nearer to what follows.
    package mutating func written(at moment: Instant) {
        guard limit != nil, taken > 0 else { return }
        full = max(full, max(fullBefore, moment) + Int64(taken) * interval)
    }

    private func available(_ now: Instant) -> Int {
        let filled = Int64(burst) * interval - max(0, full - now)
        return Int(max(0, filled) / interval)
    }

    private static func terms(_ limit: Int?) -> (limit: Int?, burst: Int, interval: Int64) {
        guard let limit = limit.map({ max(1, $0) }) else { return (nil, Int.max, 1) }
        let burst = (limit + 199) / 200
        let earned = Int64(max(1, limit - burst))
        // Rounded up: never faster than the limit.
        let even = (1_000_000_000 + earned - 1) / earned
        return (limit, burst, limit == 1 ? 1_000_000_001 : even)
    }
}
