internal import Base

extension JSONParser {
    /// The string that begins at the present double quote.
    mutating func string() throws(JSONError) -> String {
        let open = index
        index += 1
        let start = index
        // The common case holds no escape and is taken in one piece.
        while let byte = peek, byte >= 0x20, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\")
        {
            index += 1
        }
        var text = Array(bytes[start..<index])
        while !take(UInt8(ascii: "\"")) {
            guard let byte = peek else {
                index = open
                throw fault("the string that begins here has no end")
            }
            guard byte >= 0x20 else {
                throw fault("a line break or control character in a string must be escaped")
            }
            if byte == UInt8(ascii: "\\") {
                text.append(contentsOf: try escape())
            } else {
                text.append(byte)
                index += 1
            }
        }
        guard let string = String(validating: text, as: UTF8.self) else {
            index = open
            throw fault("the string is not valid UTF-8; save the file as UTF-8")
        }
        return string
    }

    private mutating func escape() throws(JSONError) -> [UInt8] {
        let start = index
        index += 1
        let character = peek
        index += 1
        switch character {
        case UInt8(ascii: "\""): return [0x22]
        case UInt8(ascii: "\\"): return [0x5C]
        case UInt8(ascii: "/"): return [0x2F]
        case UInt8(ascii: "b"): return [0x08]
        case UInt8(ascii: "f"): return [0x0C]
        case UInt8(ascii: "n"): return [0x0A]
        case UInt8(ascii: "r"): return [0x0D]
        case UInt8(ascii: "t"): return [0x09]
        case UInt8(ascii: "u"): break
        default:
            index = start
            throw fault("an unknown escape; write \\\\ for a backslash")
        }
        var scalar = try fourDigits()
        if (0xD800..<0xDC00).contains(scalar) {
            guard take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) else {
                index = start
                throw fault("half of a surrogate pair")
            }
            let low = try fourDigits()
            guard (0xDC00..<0xE000).contains(low) else {
                index = start
                throw fault("half of a surrogate pair")
            }
            scalar = 0x10000 + (scalar - 0xD800) << 10 + (low - 0xDC00)
        }
        guard let scalar = Unicode.Scalar(scalar) else {
            index = start
            throw fault("half of a surrogate pair")
        }
        return Array(String(Character(scalar)).utf8)
    }

    private mutating func fourDigits() throws(JSONError) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = peek, let digit = Hex.value(byte) else {
                throw fault("\\u needs four hexadecimal digits")
            }
            value = value << 4 | UInt32(digit)
            index += 1
        }
        return value
    }
}
