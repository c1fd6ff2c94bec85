internal import Base

/// A device token: the opaque bytes that an app got from APNs and handed to its server.
///
/// Apple says not to assume a size ("Registering your app with APNs"); 32, 54 and 80 bytes have
/// been seen. Peal takes 1 to 256 bytes, written as 2 to 512 hexadecimal digits of either case.
package struct DeviceToken: Hashable, Sendable, CustomStringConvertible {
    /// The longest token in bytes.
    package static let maximumBytes = 256
    /// The longest text in hexadecimal digits.
    package static let maximumDigits = 512
    /// The longest text with the spaces and brackets of old spellings.
    static let maximumText = 2 * maximumDigits

    package let bytes: [UInt8]

    /// A token from its text, in any spelling that `decode` takes.
    package init?(_ text: String) {
        var copy = text
        let bytes = copy.withUTF8 { utf8 in
            withUnsafeTemporaryAllocation(of: UInt8.self, capacity: Self.maximumBytes) { buffer in
                buffer.baseAddress.flatMap { start in
                    Self.decode(UnsafeRawBufferPointer(utf8), into: start).map {
                        Array(buffer[..<$0])
                    }
                }
            }
        }
        guard let bytes else { return nil }
        self.bytes = bytes
    }

    /// A token from its raw bytes, 1 to 256 of them.
    package init?(bytes: [UInt8]) {
        guard (1...Self.maximumBytes).contains(bytes.count) else { return nil }
        self.bytes = bytes
    }

    /// Lower-case hexadecimal digits, as in the request's path.
    package var hex: String { Hex.encode(bytes) }

    package var description: String { "device token of \(bytes.count) bytes" }

    /// Reads the text of a token without allocating.
    ///
    /// Old programs wrote the description of an `NSData`: `<0a1b2c3d 4e5f6071>`. Spaces, tabs, `<`
    /// and `>` are left out, on a slower path that only texts with such characters take.
    ///
    /// - Parameters:
    ///   - text: The text.
    ///   - target: Room for `maximumBytes` bytes.
    /// - Returns: The number of bytes, or nil when the text is no token.
    package static func decode(
        _ text: UnsafeRawBufferPointer, into target: UnsafeMutablePointer<UInt8>
    ) -> Int? {
        decodeDigits(text, into: target) ?? decodeOldSpelling(text, into: target)
    }

    /// Pure hexadecimal digits; about 1 ns a digit.
    @inline(__always)
    private static func decodeDigits(
        _ text: UnsafeRawBufferPointer, into target: UnsafeMutablePointer<UInt8>
    ) -> Int? {
        let count = text.count
        guard count >= 2, count <= maximumDigits, count & 1 == 0 else { return nil }
        var refused: UInt8 = 0
        var index = 0
        while index < count {
            let high = digit(text[index], &refused)
            let low = digit(text[index &+ 1], &refused)
            target[index &>> 1] = high &<< 4 | low
            index &+= 2
        }
        return refused == 0 ? count &>> 1 : nil
    }

    /// The value of a digit; sets `refused` for another character.
    @inline(__always)
    private static func digit(_ character: UInt8, _ refused: inout UInt8) -> UInt8 {
        let decimal = character &- 0x30
        if decimal < 10 { return decimal }
        let letter = (character | 0x20) &- 0x61
        if letter >= 6 { refused = 1 }
        return (letter &+ 10) & 15
    }

    private static func decodeOldSpelling(
        _ text: UnsafeRawBufferPointer, into target: UnsafeMutablePointer<UInt8>
    ) -> Int? {
        guard text.count <= maximumText else { return nil }
        // Only the ends may have white space and brackets; inside, single spaces stand between
        // groups of eight digits at most. Anything else could be several tokens in one entry.
        let isEdge: (UInt8) -> Bool = { [0x20, 0x09, 0x0A, 0x0D, 0x3C, 0x3E].contains($0) }
        guard let start = text.firstIndex(where: { !isEdge($0) }),
            let end = text.lastIndex(where: { !isEdge($0) })
        else { return nil }
        return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: maximumText) { digits in
            var count = 0
            var group = 0
            for character in text[start...end] {
                if character == 0x20 {
                    guard (1...8).contains(group) else { return nil }
                    group = 0
                    continue
                }
                guard group < 8 || group == count else { return nil }
                digits[count] = character
                count += 1
                group += 1
            }
            guard count < text.count else { return nil }
            return decodeDigits(UnsafeRawBufferPointer(digits)[..<count].rebased, into: target)
        }
    }
}

extension Slice<UnsafeRawBufferPointer> {
    fileprivate var rebased: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: self) }
}
