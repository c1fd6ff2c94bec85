#if canImport(Glibc)
internal import Glibc
#endif

/// A first-in, first-out queue of bytes in one contiguous block of memory.
///
/// Sockets, TLS and HTTP/2 hand bytes to each other through it without copying into arrays. It
/// grows
/// by doubling and gives a large block back when it is empty. Confined to one thread.
package final class ByteQueue {
    /// An empty queue keeps at most this many bytes of memory.
    package static let keptCapacity = 256 * 1024

    private var base: UnsafeMutableRawPointer
    private var capacity: Int
    private var head = 0
    private var tail = 0

    package init(capacity: Int = 4096) {
        self.capacity = max(capacity, 64)
        base = UnsafeMutableRawPointer.allocate(byteCount: self.capacity, alignment: 16)
    }

    deinit { base.deallocate() }

    /// Bytes waiting to be read.
    package var count: Int { tail - head }
    package var isEmpty: Bool { tail == head }

    /// The waiting bytes; valid until the next change of the queue.
    package var readable: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: base + head, count: tail - head)
    }

    /// Drops `count` bytes from the front.
    package func consume(_ count: Int) {
        precondition(count >= 0 && count <= tail - head, "consumed more bytes than the queue holds")
        head += count
        guard head == tail else { return }
        head = 0
        tail = 0
        if capacity > ByteQueue.keptCapacity { reallocate(to: ByteQueue.keptCapacity) }
    }

    /// Writable space of at least `count` bytes; tell what was written with `commit`.
    package func reserve(_ count: Int) -> UnsafeMutableRawBufferPointer {
        if capacity - tail < count {
            let used = tail - head
            if head > 0 && capacity - used >= count && head >= used {
                (base).copyMemory(from: base + head, byteCount: used)
                head = 0
                tail = used
            } else {
                var wanted = capacity * 2
                while wanted - used < count { wanted *= 2 }
                reallocate(to: wanted)
            }
        }
        return UnsafeMutableRawBufferPointer(start: base + tail, count: capacity - tail)
    }

    /// Makes `count` bytes, written into the space from `reserve`, part of the queue.
    package func commit(_ count: Int) {
        precondition(count >= 0 && tail + count <= capacity, "committed more than was reserved")
        tail += count
    }

    package func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, bytes.count > 0 else { return }
        let space = reserve(bytes.count)
        space.baseAddress?.copyMemory(from: source, byteCount: bytes.count)
        commit(bytes.count)
    }

    package func append(_ bytes: [UInt8]) { bytes.withUnsafeBytes { append($0) } }

    package func removeAll() { consume(count) }

    private func reallocate(to wanted: Int) {
        let used = tail - head
        let fresh = UnsafeMutableRawPointer.allocate(byteCount: wanted, alignment: 16)
        fresh.copyMemory(from: base + head, byteCount: used)
        base.deallocate()
        base = fresh
        capacity = wanted
        head = 0
        tail = used
    }
}
