internal import Base

/// Names a timer so that it can be cancelled.
package struct TimerID: Hashable, Sendable {
    let number: UInt64
}

/// Closures by the time they are due: a binary heap with lazy removal.
struct TimerHeap {
    private var heap: [(moment: Instant, number: UInt64)] = []
    private var bodies: [UInt64: () -> Void] = [:]
    private var last: UInt64 = 0

    /// The earliest time at which a timer that still stands is due.
    var next: Instant? {
        mutating get {
            while let first = heap.first, bodies[first.number] == nil { removeFirst() }
            return heap.first?.moment
        }
    }

    mutating func add(_ moment: Instant, _ body: @escaping () -> Void) -> TimerID {
        last += 1
        bodies[last] = body
        heap.append((moment, last))
        var child = heap.count - 1
        while child > 0, heap[child].moment < heap[(child - 1) / 2].moment {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
        return TimerID(number: last)
    }

    mutating func cancel(_ timer: TimerID) { bodies[timer.number] = nil }

    /// Takes the timers due at `now`, in order.
    mutating func due(at now: Instant) -> [() -> Void] {
        var ready: [() -> Void] = []
        while let moment = next, moment <= now, let first = heap.first {
            if let body = bodies.removeValue(forKey: first.number) { ready.append(body) }
            removeFirst()
        }
        return ready
    }

    private mutating func removeFirst() {
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < heap.count && heap[child].moment < heap[least].moment { least = child }
            guard least != parent else { return }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}
