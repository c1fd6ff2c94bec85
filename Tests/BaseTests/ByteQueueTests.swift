import Base
import Testing

@Suite("Byte queue")
struct ByteQueueTests {
    @Test("bytes come out in the order they went in, over growth and compaction")
    func order() {
        let queue = ByteQueue(capacity: 64)
        var random = SeededRandom(seed: 7)
        var written: UInt8 = 0
        var read: UInt8 = 0
        for _ in 0..<2000 {
            let count = Int(random.next() % 90)
            queue.append((0..<count).map { written &+ UInt8(truncatingIfNeeded: $0) })
            written &+= UInt8(truncatingIfNeeded: count)
            let taken = min(queue.count, Int(random.next() % 100))
            for byte in queue.readable.prefix(taken) {
                #expect(byte == read)
                read &+= 1
            }
            queue.consume(taken)
        }
    }
}
