extension JSONValue {
    /// Reads one JSON text.
    ///
    /// Strict after RFC 8259: no trailing comma, no comment, no lone surrogate, valid UTF-8 only.
    /// A repeated key is refused, since readers disagree on which one counts. A byte order mark at
    /// the start is skipped.
    package static func parse(
        _ bytes: [UInt8], maximumBytes: Int = JSONLimits.bytes
    ) throws(JSONError) -> JSONValue {
        var parser = JSONParser(bytes: bytes)
        guard bytes.count <= maximumBytes else {
            throw JSONError(
                message: "the text has \(bytes.count) bytes, at most \(maximumBytes) are read",
                line: 1, column: 1)
        }
        return try parser.document()
    }

    /// Reads one JSON text.
    package static func parse(_ text: String) throws(JSONError) -> JSONValue {
        try parse(Array(text.utf8))
    }
}

/// A recursive descent over the bytes of one text.
///
/// Foundation's decoder is not used: on Linux it reports no position, accepts a trailing comma
/// and lets the first of two equal keys win.
struct JSONParser {
    let bytes: [UInt8]
    var index = 0

    mutating func document() throws(JSONError) -> JSONValue {
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { index = 3 }
        skipSpace()
        guard index < bytes.count else { throw fault("the text is empty") }
        let value = try value(depth: 0)
        skipSpace()
        guard index == bytes.count else {
            throw fault("something follows the end of the JSON text")
        }
        return value
    }

    private mutating func value(depth: Int) throws(JSONError) -> JSONValue {
        guard depth <= JSONLimits.depth else {
            throw fault("more than \(JSONLimits.depth) arrays and objects inside each other")
        }
        guard let first = peek else { throw fault("the text ends where a value should follow") }
        switch first {
        case UInt8(ascii: "{"): return try object(depth: depth)
        case UInt8(ascii: "["): return try array(depth: depth)
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return try number()
        default: throw fault("a value is missing or is not JSON")
        }
    }

    private mutating func object(depth: Int) throws(JSONError) -> JSONValue {
        index += 1
        var members: [String: JSONValue] = [:]
        skipSpace()
        if take(UInt8(ascii: "}")) { return .object(members) }
        while true {
            skipSpace()
            guard peek == UInt8(ascii: "\"") else {
                throw fault("a key in double quotes is missing")
            }
            let start = index
            let key = try string()
            guard members[key] == nil else {
                index = start
                throw fault("the key \"\(key)\" is given twice in one object")
            }
            skipSpace()
            guard take(UInt8(ascii: ":")) else { throw fault("a colon is missing after the key") }
            skipSpace()
            members[key] = try value(depth: depth + 1)
            skipSpace()
            if take(UInt8(ascii: "}")) { return .object(members) }
            guard take(UInt8(ascii: ",")) else { throw fault("a comma or } is missing") }
        }
    }

    private mutating func array(depth: Int) throws(JSONError) -> JSONValue {
        index += 1
        var elements: [JSONValue] = []
        skipSpace()
        if take(UInt8(ascii: "]")) { return .array(elements) }
        while true {
            skipSpace()
            elements.append(try value(depth: depth + 1))
            skipSpace()
            if take(UInt8(ascii: "]")) { return .array(elements) }
            guard take(UInt8(ascii: ",")) else { throw fault("a comma or ] is missing") }
        }
    }

    private mutating func word(
        _ word: StaticString, _ value: JSONValue
    ) throws(JSONError) -> JSONValue {
        let text = UnsafeBufferPointer(start: word.utf8Start, count: word.utf8CodeUnitCount)
        guard bytes[index...].starts(with: text) else {
            throw fault("a value is missing or is not JSON")
        }
        index += text.count
        return value
    }

    private mutating func number() throws(JSONError) -> JSONValue {
        let start = index
        var isWhole = true
        _ = take(UInt8(ascii: "-"))
        if take(UInt8(ascii: "0")) {
            if isDigit { throw fault("a number may not begin with 0") }
        } else {
            try digits()
        }
        if take(UInt8(ascii: ".")) {
            isWhole = false
            try digits()
        }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            isWhole = false
            if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
            try digits()
        }
        let text = String(decoding: bytes[start..<index], as: UTF8.self)
        if isWhole, let value = Int64(text) { return .integer(value) }
        guard let value = Double(text), value.isFinite else {
            index = start
            throw fault("the number is out of range")
        }
        return JSONValue(value)
    }

    private mutating func digits() throws(JSONError) {
        guard isDigit else { throw fault("a digit is missing") }
        while isDigit { index += 1 }
    }

    private var isDigit: Bool {
        guard let peek else { return false }
        return (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(peek)
    }

    var peek: UInt8? { index < bytes.count ? bytes[index] : nil }

    mutating func take(_ byte: UInt8) -> Bool {
        guard peek == byte else { return false }
        index += 1
        return true
    }

    private mutating func skipSpace() {
        while let byte = peek, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 {
            index += 1
        }
    }

    /// An error at the present place.
    func fault(_ message: String) -> JSONError {
        var line = 1
        var column = 1
        for byte in bytes.prefix(index) {
            if byte == 0x0A {
                line += 1
                column = 1
            } else if byte & 0xC0 != 0x80 {
                column += 1
            }
        }
        return JSONError(message: message, line: line, column: column)
    }
}
