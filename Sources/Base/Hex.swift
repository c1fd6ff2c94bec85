/// Lower-case hexadecimal text.
package enum Hex {
    /// The text of `bytes`, two digits each.
    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        var digits: [UInt8] = []
        digits.reserveCapacity(bytes.count * 2)
        for byte in bytes {
            digits.append(digit(byte >> 4))
            digits.append(digit(byte & 15))
        }
        return String(decoding: digits, as: UTF8.self)
    }

    /// Writes two digits for each byte into `target` and returns the number of digits.
    @inline(__always)
    package static func encode(
        _ bytes: UnsafeRawBufferPointer, into target: UnsafeMutablePointer<UInt8>
    ) -> Int {
        var index = 0
        for byte in bytes {
            target[index] = digit(byte >> 4)
            target[index + 1] = digit(byte & 15)
            index += 2
        }
        return index
    }

    /// The bytes of hexadecimal text of either case, or nil when it is empty, odd or holds
    /// another character.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        guard text.count > 0, text.count % 2 == 0 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 2)
        var high: UInt8?
        for character in text {
            guard let value = value(character) else { return nil }
            if let first = high {
                bytes.append(first << 4 | value)
                high = nil
            } else {
                high = value
            }
        }
        return bytes
    }

    /// The value of one hexadecimal digit of either case.
    @inline(__always)
    package static func value(_ character: UInt8) -> UInt8? {
        switch character {
        case 0x30...0x39: character - 0x30
        case 0x61...0x66: character - 0x61 + 10
        case 0x41...0x46: character - 0x41 + 10
        default: nil
        }
    }

    @inline(__always)
    package static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? 0x30 + value : 0x61 + value - 10
    }
}
