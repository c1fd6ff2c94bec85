/// Base64 with the URL alphabet and without padding (RFC 4648 section 5), as JOSE writes it.
package enum Base64URL {
    private static let alphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    package static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count * 4 + 2) / 3)
        var bits: UInt32 = 0
        var held = 0
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            held += 8
            while held >= 6 {
                held -= 6
                text.append(alphabet[Int(bits >> UInt32(held)) & 63])
            }
        }
        if held > 0 { text.append(alphabet[Int(bits << UInt32(6 - held)) & 63]) }
        return String(decoding: text, as: UTF8.self)
    }

    /// Decodes the URL alphabet and, leniently, the standard one, padded or not; nil for anything
    /// else.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        var bits: UInt32 = 0
        var held = 0
        var padding = false
        for character in text {
            let value: UInt32
            switch character {
            case 0x41...0x5A: value = UInt32(character) - 0x41
            case 0x61...0x7A: value = UInt32(character) - 0x61 + 26
            case 0x30...0x39: value = UInt32(character) - 0x30 + 52
            case 0x2D, 0x2B: value = 62
            case 0x5F, 0x2F: value = 63
            case 0x3D:
                padding = true
                continue
            default: return nil
            }
            guard !padding else { return nil }
            bits = (bits << 6 | value) & 0xFFFFFF
            held += 6
            if held >= 8 {
                held -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(held)))
            }
        }
        return held < 6 ? bytes : nil
    }
}
