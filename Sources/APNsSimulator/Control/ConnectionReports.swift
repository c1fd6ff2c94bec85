package import Base

/// The most events within any one second.
package struct SecondMeter: Sendable {
    /// Events of one second that are remembered; a second with more counts as this many.
    package static let limit = 1 << 17

    package private(set) var most = 0
    private var times: [Int64] = []
    private var oldest = 0

    package init() {}

    /// Notes `count` events at one moment, not before the last one.
    package mutating func add(_ count: Int, at moment: Instant) {
        let begin = moment.nanoseconds - 1_000_000_000
        while oldest < times.count, times[oldest] <= begin { oldest += 1 }
        if oldest > 4096, oldest * 2 > times.count {
            times.removeFirst(oldest)
            oldest = 0
        }
        let space = SecondMeter.limit - (times.count - oldest)
        times.append(
            contentsOf: repeatElement(moment.nanoseconds, count: max(0, min(count, space))))
        most = max(most, times.count - oldest)
    }
}

/// What each connection did, for the control endpoint.
struct ConnectionReports: Sendable {
    /// Connections that are remembered; beyond it the oldest is forgotten.
    static let limit = 256

    struct Report: Sendable {
        let number: Int
        var requests = 0
        var isOpen = true
        var meter = SecondMeter()
    }

    private var reports: [Int: Report] = [:]
    /// In the order of their numbers.
    var all: [Report] { reports.values.sorted { $0.number < $1.number } }

    mutating func open(_ number: Int) {
        while reports.count >= Self.limit, let oldest = reports.keys.min() {
            reports[oldest] = nil
        }
        reports[number] = Report(number: number)
    }

    mutating func add(_ count: Int, to number: Int, at moment: Instant) {
        reports[number]?.requests += count
        reports[number]?.meter.add(count, at: moment)
    }

    mutating func close(_ number: Int) { reports[number]?.isOpen = false }

    /// Forgets closed connections and what open ones did.
    mutating func reset() {
        reports = reports.filter { $0.value.isOpen }.mapValues { Report(number: $0.number) }
    }
}
