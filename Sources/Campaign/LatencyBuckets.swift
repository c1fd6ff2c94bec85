/// A histogram of answer times in milliseconds with four linear steps per octave: buckets at most
/// 25 % wide, which add up over workers and minutes.
///
/// A bucket is named by its upper bound, the first whole millisecond it does not hold:
///
/// | answer time in ms | 0 | 3 | 4 | 7 | 8 | 9 | 10 | 100 | 1000 | 59999 | over 65535 |
/// | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
/// | bucket | 1 | 4 | 5 | 8 | 10 | 10 | 12 | 112 | 1024 | 65536 | 65536 |
package enum LatencyBuckets {
    package static let count = 60

    /// The position of the bucket of an answer time.
    package static func index(milliseconds: Int) -> Int {
        let value = min(max(milliseconds, 0), 65_535)
        if value < 4 { return value }
        let octave = Int.bitWidth - 1 - value.leadingZeroBitCount  // 2 for 4 to 7
        return (octave - 1) * 4 + (value >> (octave - 2)) - 4
    }

    /// The upper bound in milliseconds by which a bucket is named.
    package static func bound(_ index: Int) -> Int {
        if index < 4 { return index + 1 }
        let octave = index / 4 + 1
        return (index % 4 + 5) << (octave - 2)
    }

    /// The bound of the bucket below which `fraction` of the counted answers lie; 0 without any.
    package static func quantile(_ counts: [Int], _ fraction: Double) -> Int {
        let total = counts.reduce(0, +)
        guard total > 0 else { return 0 }
        var left = Int((Double(total) * fraction).rounded(.up))
        for (index, count) in counts.enumerated() {
            left -= count
            if left <= 0 { return bound(index) }
        }
        return bound(counts.count - 1)
    }
}
