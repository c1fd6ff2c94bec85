/// SipHash-2-4, a keyed 64-bit hash of short byte strings (Aumasson and Bernstein, 2012).
///
/// Used where equal input must hash equally in every process: which shard a token belongs to, and
/// the stable id of a notification.
package struct SipHash: Sendable {
    private let key0: UInt64
    private let key1: UInt64

    package init(key0: UInt64, key1: UInt64) {
        self.key0 = key0
        self.key1 = key1
    }

    package func hash(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        var v0 = key0 ^ 0x736F_6D65_7073_6575
        var v1 = key1 ^ 0x646F_7261_6E64_6F6D
        var v2 = key0 ^ 0x6C79_6765_6E65_7261
        var v3 = key1 ^ 0x7465_6462_7974_6573

        @inline(__always) func round() {
            v0 = v0 &+ v1
            v1 = (v1 << 13 | v1 >> 51) ^ v0
            v0 = v0 << 32 | v0 >> 32
            v2 = v2 &+ v3
            v3 = (v3 << 16 | v3 >> 48) ^ v2
            v0 = v0 &+ v3
            v3 = (v3 << 21 | v3 >> 43) ^ v0
            v2 = v2 &+ v1
            v1 = (v1 << 17 | v1 >> 47) ^ v2
            v2 = v2 << 32 | v2 >> 32
        }

        let whole = bytes.count & ~7
        var index = 0
        while index < whole {
            let word = UInt64(
                littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            v3 ^= word
            round()
            round()
            v0 ^= word
            index += 8
        }
        var last = UInt64(truncatingIfNeeded: bytes.count) << 56
        var shift: UInt64 = 0
        while index < bytes.count {
            last |= UInt64(bytes[index]) << shift
            shift += 8
            index += 1
        }
        v3 ^= last
        round()
        round()
        v0 ^= last
        v2 ^= 0xFF
        round()
        round()
        round()
        round()
        return v0 ^ v1 ^ v2 ^ v3
    }

    package func hash(_ bytes: [UInt8]) -> UInt64 { bytes.withUnsafeBytes { hash($0) } }
}
