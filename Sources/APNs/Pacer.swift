package import Base

/// Spaces the requests of one connection evenly, so that no one-second window holds more than its
/// limit.
///
/// With a limit of L, at most b = max(1, ⌈L / 200⌉) requests leave at once and L − b a second are
/// earned: any window of one second holds at most b + (L − b) = L. What was not used in time is
/// lost: a stall is never followed by a burst.
///
/// | limit | 1 | 10 | 200 | 1000 | 1500 |
/// | --- | --- | --- | --- | --- | --- |
/// | at once (b) | 1 | 1 | 1 | 5 | 8 |
/// | earned per second | 1 (with half a window lost) | 9 | 199 | 995 | 1492 |
///
/// Apple names no such limit; 1500 is the figure that this project's operators ask for.
package struct Pacer: Sendable {
    /// Requests in any one-second window; nil for no limit.
    package let limit: Int?
    /// Requests that may leave at once.
    package let burst: Int

    private let interval: Int64
    /// When the bucket would be full again (the theoretical arrival time of GCRA).
    private var full: Instant

    /// - Parameter now: the pacer starts with an empty bucket, so that a new connection does not burst.
    package init(limit: Int?, now: Instant) {
        let limit = limit.map { max(1, $0) }
        let burst = limit.map { max(1, ($0 + 199) / 200) } ?? Int.max
        self.limit = limit
        self.burst = burst
        let earned = limit.map { max(1, $0 - burst) } ?? 1
        // Rounded up: never faster than the limit.
        let even = (1_000_000_000 + Int64(earned) - 1) / Int64(earned)
        let spacing = limit == 1 ? 1_000_000_001 : even
        interval = spacing
        full = now + spacing * Int64(min(burst, 1 << 20))
    }

    /// Requests that may leave at `now`, `wanted` at most, and notes that they do.
    package mutating func take(upTo wanted: Int, now: Instant) -> Int {
        guard limit != nil else { return wanted }
        let granted = min(wanted, available(now))
        guard granted > 0 else { return 0 }
        full = max(full, now) + Int64(granted) * interval
        return granted
    }

    /// Gives back what was taken and not used in the same turn.
    package mutating func giveBack(_ count: Int) {
        guard limit != nil, count > 0 else { return }
        full = full + -Int64(count) * interval
    }

    private func available(_ now: Instant) -> Int {
        let filled = Int64(burst) * interval - max(0, full - now)
        return Int(max(0, filled) / interval)
    }
}
