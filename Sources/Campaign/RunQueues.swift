internal import Base

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

/// Deferred recipients by the time they are due (our own clock, ms: it never jumps).
struct DueHeap {
    private var heap = MinHeap<Int>()

    var first: (index: Int, time: Int64)? { heap.first.map { ($0.element, $0.key) } }
    var count: Int { heap.count }

    mutating func add(_ index: Int, _ time: Int64) { heap.add(index, key: time) }

    mutating func removeFirst() { heap.removeFirst() }

    /// All entries as due records.
    ///
    /// - `offset`: Redis' clock minus our own, ms.
    func records(now: Int64, offset: Int64) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(heap.count * 16)
        for entry in heap.all {
            DueRecords.append(
                entry.element, at: entry.key + offset, ahead: max(0, entry.key - now), to: &bytes)
        }
        return bytes
    }
}
