/// How many recipients of a shard run may be marked as in flight: enough to hold the pace, no more,
/// since that is what a death of the worker can leave unknown.
///
/// clamp(rate × (p99 latency + 2 × commit interval + confirmation), 16, 4096)
///
/// | rate per run (1/s) | p99 (ms) | marks |
/// | --- | --- | --- |
/// | 1 | 50 | 16 |
/// | 100 | 50 | 86 |
/// | 1500 | 50 | 1290 |
/// | 1500 | 500 | 1965 |
/// | 6000 | 50 | 4096 |
enum MarkTarget {
    static let least = 16
    static let most = 4096
    /// Two commit intervals and the confirmation, in seconds.
    static let overhead = 2 * 0.4 + 0.01

    static func marks(ratePerSecond rate: Double, latencySeconds: Double) -> Int {
        let wanted = (rate * (latencySeconds + overhead)).rounded()
        return Int(min(max(wanted, Double(least)), Double(most)))
    }
}
