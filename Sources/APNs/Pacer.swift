package import Base

/// Spaces the requests of one connection evenly, so that no one-second window holds more than its
/// limit.
///
/// With a limit of L, at most b = max(1, ⌈L / 200⌉) requests leave at once. Three rules, each
/// sufficient alone to say no:
///
/// 1. L − b requests a second are earned. What was not used is kept for a tenth of a second, so
///    that a thread that the system held up for some milliseconds still holds the pace; beyond
///    that it is lost.
/// 2. What was kept is caught up at most a fifth faster than the even pace: never a burst.
/// 3. Request k leaves no earlier than one second after request k − L, counted from the times of
///    writing. This is the hard limit.
///
/// | limit | at once (b) | earned per second | nanoseconds between two | catching up |
/// | --- | --- | --- | --- | --- |
/// | 1 | 1 | just below 1 | 1000000001 | 833333335 |
/// | 10 | 1 | 9 | 111111112 | 92592594 |
/// | 200 | 1 | 199 | 5025126 | 4187605 |
/// | 1000 | 5 | 995 | 1005026 | 837522 |
/// | 1500 | 8 | 1492 | 670242 | 558535 |
///
/// Apple names no such limit; 1500 is the figure that this project's operators ask for.
package struct Pacer: Sendable {
    /// Requests in any one-second window; nil for no limit.
    package private(set) var limit: Int?
    /// Requests that may leave at once.
    package private(set) var burst: Int
    /// Nanoseconds between two requests at the even pace.
    package private(set) var interval: Int64
    /// Nanoseconds between two requests while catching up.
    package var catchUpInterval: Int64 { spacing.interval }

    private var earned: Bucket
    private var spacing: Bucket
    private var window: Window
    private var taken = 0
    private var takenAt: Instant

    /// A pacer that starts with empty buckets at `now`, so that a new connection does not burst;
    /// nil is no limit.
    package init(limit: Int?, now: Instant) {
        takenAt = now
        guard let limit = limit.map({ max(1, $0) }) else {
            (self.limit, burst, interval) = (nil, Int.max, 1)
            earned = Bucket(interval: 1, burst: 1, emptyAt: now)
            spacing = earned
            window = Window(limit: 1)
            return
        }
        let burst = (limit + 199) / 200
        let perSecond = Int64(max(1, limit - burst))
        // Rounded up: never faster than the limit.
        let even = limit == 1 ? 1_000_000_001 : (1_000_000_000 + perSecond - 1) / perSecond
        self.limit = limit
        self.burst = burst
        interval = even
        let kept = Int(perSecond / 10)
        earned = Bucket(interval: even, burst: burst + kept, emptyAt: now)
        spacing = Bucket(interval: (even * 5 + 5) / 6, burst: burst, emptyAt: now)
        window = Window(limit: limit)
    }

    /// Changes the limit from `now` on; the buckets are emptied, so that a change is no burst.
    package mutating func setLimit(_ limit: Int?, now: Instant) {
        self = Pacer(limit: limit, now: now)
    }

    /// Requests that may leave at `now`, `wanted` at most, and notes that they do.
    package mutating func take(upTo wanted: Int, now: Instant) -> Int {
        guard limit != nil else { return wanted }
        let available = min(earned.available(now), spacing.available(now), window.room(now))
        taken = max(0, min(wanted, available))
        takenAt = now
        earned.take(taken, now)
        spacing.take(taken, now)
        window.add(taken, now)
        return taken
    }

    /// Gives back what was taken and not used in the same turn.
    package mutating func giveBack(_ count: Int) {
        guard limit != nil, count > 0 else { return }
        precondition(count <= taken, "gave back more than was taken")
        taken -= count
        earned.takeInstead(taken, takenAt)
        spacing.takeInstead(taken, takenAt)
        window.removeLast(count)
    }

    /// Tells when what was taken last was really written, so that a thread that was held up in
    /// between does not bring it nearer to what follows.
    package mutating func written(at moment: Instant) {
        guard limit != nil, taken > 0 else { return }
        spacing.takeInstead(taken, moment)
        window.moveLast(taken, to: moment)
    }
}

/// A bucket that fills by one each `interval` and holds `burst` (GCRA).
private struct Bucket: Sendable {
    let interval: Int64
    private let burst: Int
    /// When it would be full again (the theoretical arrival time).
    private var full: Instant
    private var fullBefore: Instant

    init(interval: Int64, burst: Int, emptyAt now: Instant) {
        self.interval = interval
        self.burst = burst
        full = now + interval * Int64(burst)
        fullBefore = full
    }

    func available(_ now: Instant) -> Int {
        Int(max(0, Int64(burst) * interval - max(0, full - now)) / interval)
    }

    mutating func take(_ count: Int, _ now: Instant) {
        fullBefore = full
        if count > 0 { full = max(full, now) + Int64(count) * interval }
    }

    /// Replaces the latest take by another one.
    mutating func takeInstead(_ count: Int, _ now: Instant) {
        full = count > 0 ? max(fullBefore, now) + Int64(count) * interval : fullBefore
    }
}

/// The times of the latest requests, as many as a second may hold.
private struct Window: Sendable {
    private static let second: Int64 = 1_000_000_000

    private var times: [Instant]
    private var first = 0
    private var count = 0

    init(limit: Int) { times = Array(repeating: Instant(nanoseconds: 0), count: limit) }

    /// Requests that may leave at `now`; forgets those of more than a second ago.
    mutating func room(_ now: Instant) -> Int {
        while count > 0, now - times[first] >= Window.second {
            first = first + 1 == times.count ? 0 : first + 1
            count -= 1
        }
        return times.count - count
    }

    mutating func add(_ number: Int, _ now: Instant) {
        for _ in 0..<number {
            times[(first + count) % times.count] = now
            count += 1
        }
    }

    mutating func removeLast(_ number: Int) { count -= number }

    /// Corrects the times of the latest requests.
    mutating func moveLast(_ number: Int, to moment: Instant) {
        for back in 1...number { times[(first + count - back) % times.count] = moment }
    }
}
