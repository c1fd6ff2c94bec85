/// Elements by an integer key, the least first: a binary heap.
package struct MinHeap<Element> {
    private var entries: [(key: Int64, element: Element)] = []

    package init() {}

    package var count: Int { entries.count }
    package var first: (key: Int64, element: Element)? { entries.first }
    /// All entries in no particular order.
    package var all: [(key: Int64, element: Element)] { entries }

    package mutating func add(_ element: Element, key: Int64) {
        entries.append((key, element))
        var child = entries.count - 1
        while child > 0, entries[child].key < entries[(child - 1) / 2].key {
            entries.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    package mutating func removeFirst() {
        guard !entries.isEmpty else { return }
        entries.swapAt(0, entries.count - 1)
        entries.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < entries.count && entries[child].key < entries[least].key {
                least = child
            }
            guard least != parent else { return }
            entries.swapAt(parent, least)
            parent = least
        }
    }
}

extension MinHeap: Sendable where Element: Sendable {}
