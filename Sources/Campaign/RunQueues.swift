/// Indexes in the order in which they may be sent.
struct IndexQueue {
    private var items: [Int] = []
    private var head = 0

    var count: Int { items.count - head }

    mutating func append(_ index: Int) { items.append(index) }

    mutating func insertFirst(_ index: Int) {
        if head > 0 {
            head -= 1
            items[head] = index
        } else {
            items.insert(index, at: 0)
        }
    }

    mutating func removeFirst() -> Int? {
        guard head < items.count else { return nil }
        let index = items[head]
        head += 1
        if head == items.count {
            items.removeAll(keepingCapacity: true)
            head = 0
        } else if head > 4096 {
            items.removeFirst(head)
            head = 0
        }
        return index
    }
}

/// Deferred recipients by the time they are due (Redis' clock, ms).
struct DueHeap {
    private var heap: [(index: Int, time: Int64)] = []

    var first: (index: Int, time: Int64)? { heap.first }
    var count: Int { heap.count }

    mutating func add(_ index: Int, _ time: Int64) {
        heap.append((index, time))
        var child = heap.count - 1
        while child > 0, heap[child].time < heap[(child - 1) / 2].time {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    mutating func removeFirst() {
        guard !heap.isEmpty else { return }
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < heap.count && heap[child].time < heap[least].time { least = child }
            guard least != parent else { return }
            heap.swapAt(parent, least)
            parent = least
        }
    }

    /// All entries as due records.
    func records() -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(heap.count * 12)
        for entry in heap { DueRecords.append(entry.index, entry.time, to: &bytes) }
        return bytes
    }
}
