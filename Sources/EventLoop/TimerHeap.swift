internal import Base

/// Names a timer so that it can be cancelled.
package struct TimerID: Hashable, Sendable {
    let number: UInt64
}

/// Closures by the time they are due, with lazy removal.
struct TimerHeap {
    private var heap = MinHeap<UInt64>()
    private var bodies: [UInt64: () -> Void] = [:]
    private var last: UInt64 = 0

    /// The earliest time at which a timer that still stands is due.
    var next: Instant? {
        mutating get {
            while let first = heap.first, bodies[first.element] == nil { heap.removeFirst() }
            return heap.first.map { Instant(nanoseconds: $0.key) }
        }
    }

    mutating func add(_ moment: Instant, _ body: @escaping () -> Void) -> TimerID {
        last += 1
        bodies[last] = body
        heap.add(last, key: moment.nanoseconds)
        return TimerID(number: last)
    }

    mutating func cancel(_ timer: TimerID) { bodies[timer.number] = nil }

    /// Takes the timers due at `now`, in order.
    mutating func due(at now: Instant) -> [() -> Void] {
        var ready: [() -> Void] = []
        while let moment = next, moment <= now, let first = heap.first {
            if let body = bodies.removeValue(forKey: first.element) { ready.append(body) }
            heap.removeFirst()
        }
        return ready
    }
}
