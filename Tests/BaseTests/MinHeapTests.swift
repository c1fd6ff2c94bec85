import Base
import Testing

@Suite("Heap")
struct MinHeapTests {
    @Test("elements come out by their key, whatever the order they went in")
    func order() {
        var random = SeededRandom(seed: 3)
        var heap = MinHeap<Int>()
        var keys: [Int64] = []
        for index in 0..<500 {
            let key = Int64(random.next() % 100)
            keys.append(key)
            heap.add(index, key: key)
            if index % 3 == 0, let first = heap.first {
                #expect(first.key == keys.min())
                keys.remove(at: keys.firstIndex(of: first.key) ?? 0)
                heap.removeFirst()
            }
        }
        var last = Int64.min
        while let first = heap.first {
            #expect(first.key >= last)
            last = first.key
            heap.removeFirst()
        }
        #expect(heap.count == 0)
    }
}
