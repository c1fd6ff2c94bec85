internal import Base

/// When a pool may open its next connection.
///
/// Pure:
///
/// 1. The first round opens at once; after it at least a second lies between two connections.
/// 2. A failure pauses all of them, longer and longer (`ReconnectPolicy`). Failures during a pause
///    belong to the one that began it: many connections lost together count once.
/// 3. A connection that proved itself ends the series.
struct ReconnectRule {
    /// Time between two new connections after the first round (nanoseconds).
    static let openInterval = Nanoseconds.seconds(1)

    /// Failures in a row, those of one pause counted once.
    private(set) var failures = 0
    private var firstRound: Int
    private var nextOpening = Instant(nanoseconds: 0)
    private var pausedUntil = Instant(nanoseconds: 0)

    init(connections: Int) { firstRound = connections }

    func mayOpen(_ now: Instant) -> Bool { now >= nextOpening && now >= pausedUntil }

    mutating func opening(_ now: Instant) {
        if firstRound > 0 {
            firstRound -= 1
        } else {
            nextOpening = now + ReconnectRule.openInterval
        }
    }

    /// A connection or an attempt failed; `fraction` is random in 0 ..< 1.
    mutating func failed(_ now: Instant, fraction: Double) {
        guard failures == 0 || now >= pausedUntil else { return }
        failures += 1
        pausedUntil = now + ReconnectPolicy.pause(failures: failures, fraction: fraction)
    }

    mutating func proven() { failures = 0 }
}
