internal import Base

/// Packs the recipients of one shard into windows, as Redis keeps them.
///
/// A window is one version byte (1) and then, for each recipient, a little-endian 16-bit header and
/// its bytes. The low 15 bits of the header are the length. With the top bit clear the bytes are a
/// device token in binary; with it set they are the beginning of a text that is no token.
package struct WindowWriter: Sendable {
    /// Recipients in one window at most.
    package static let recipientLimit = 1000
    /// Bytes in one window at most.
    package static let byteLimit = 64 * 1024
    /// Bytes kept of a text that is no token.
    package static let invalidLimit = 160
    static let invalidBit: UInt16 = 0x8000

    package private(set) var bytes: [UInt8] = []
    package private(set) var count = 0

    package init() {}

    /// Whether another recipient of `length` bytes fits.
    package func hasRoom(for length: Int) -> Bool {
        count < WindowWriter.recipientLimit && bytes.count + length + 2 <= WindowWriter.byteLimit
    }

    package mutating func append(token: UnsafeRawBufferPointer) {
        append(UInt16(token.count), token)
    }

    /// Keeps a recipient that is no device token, so that it is counted and can be named.
    package mutating func append(invalid text: UnsafeRawBufferPointer) {
        let kept = UnsafeRawBufferPointer(rebasing: text.prefix(WindowWriter.invalidLimit))
        append(UInt16(kept.count) | WindowWriter.invalidBit, kept)
    }

    /// Takes the window and starts an empty one.
    package mutating func take() -> (bytes: [UInt8], count: Int) {
        let taken = (bytes, count)
        bytes = []
        count = 0
        return taken
    }

    private mutating func append(_ header: UInt16, _ content: UnsafeRawBufferPointer) {
        if bytes.isEmpty {
            bytes.reserveCapacity(WindowWriter.recipientLimit * 34 + 1)
            bytes.append(1)
        }
        bytes.append(UInt8(truncatingIfNeeded: header))
        bytes.append(UInt8(truncatingIfNeeded: header >> 8))
        bytes.append(contentsOf: content)
        count += 1
    }
}

/// The recipients of one shard in the order of its ledger, in one block of memory.
package final class RecipientTable {
    private let bytes: UnsafeMutableRawPointer
    private let byteCount: Int
    private var offsets: [UInt32] = []
    private var invalid: Set<UInt32> = []

    /// Reads all windows of a shard; nil when one is not of the form `WindowWriter` makes.
    package init?(windows: [[UInt8]]) {
        byteCount = windows.reduce(0) { $0 + $1.count }
        bytes = .allocate(byteCount: max(byteCount, 1), alignment: 16)
        var end = 0
        for window in windows where !window.isEmpty {
            guard window[0] == 1 else { return nil }
            var index = 1
            while index + 2 <= window.count {
                let header = UInt16(window[index]) | UInt16(window[index + 1]) << 8
                let length = Int(header & ~WindowWriter.invalidBit)
                guard index + 2 + length <= window.count else { return nil }
                if header & WindowWriter.invalidBit != 0 { invalid.insert(UInt32(offsets.count)) }
                offsets.append(UInt32(end))
                window.withUnsafeBytes { raw in
                    if length > 0, let base = raw.baseAddress {
                        (bytes + end).copyMemory(from: base + index + 2, byteCount: length)
                    }
                }
                end += length
                index += 2 + length
            }
            guard index == window.count else { return nil }
        }
        offsets.append(UInt32(end))
    }

    deinit { bytes.deallocate() }

    package var count: Int { offsets.count - 1 }

    /// The binary token, or the text that is none; valid as long as the table.
    package func content(_ index: Int) -> UnsafeRawBufferPointer {
        let start = Int(offsets[index])
        return UnsafeRawBufferPointer(start: bytes + start, count: Int(offsets[index + 1]) - start)
    }

    package func isInvalid(_ index: Int) -> Bool { invalid.contains(UInt32(index)) }

    /// The indexes of recipients whose token stood before: the first position wins.
    package func duplicates() -> [Int] {
        guard count > 1 else { return [] }
        var capacity = 16
        while capacity < count * 2 { capacity *= 2 }
        var table = [Int32](repeating: -1, count: capacity)
        let hash = SipHash(key0: 0x5065_616C, key1: 0x6475_7065)
        var found: [Int] = []
        for index in 0..<count where !isInvalid(index) {
            let token = content(index)
            var place = Int(hash.hash(token) & UInt64(capacity - 1))
            var isDuplicate = false
            while table[place] >= 0 {
                let other = content(Int(table[place]))
                if other.count == token.count && other.elementsEqual(token) {
                    isDuplicate = true
                    break
                }
                place = (place + 1) & (capacity - 1)
            }
            if isDuplicate { found.append(index) } else { table[place] = Int32(index) }
        }
        return found
    }
}
