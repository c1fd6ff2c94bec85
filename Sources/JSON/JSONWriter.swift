internal import Base

extension JSONValue {
    /// The canonical text: keys sorted by their bytes, no spaces, only what must be escaped is,
    /// whole numbers without a fraction, others with the fewest digits that read back the same.
    package func serialized() -> [UInt8] {
        var writer = JSONWriter(indent: nil)
        writer.write(self, level: 0)
        return writer.bytes
    }

    /// The canonical text as a string.
    package var text: String { String(decoding: serialized(), as: UTF8.self) }

    /// The text for people: two spaces of indent for each level, keys sorted.
    package func pretty() -> String {
        var writer = JSONWriter(indent: 2)
        writer.write(self, level: 0)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// Keys in the order of the canonical text.
    package static func sorted(_ keys: some Sequence<String>) -> [String] {
        keys.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    }
}

struct JSONWriter {
    var bytes: [UInt8] = []
    let indent: Int?

    init(indent: Int?) { self.indent = indent }

    mutating func write(_ value: JSONValue, level: Int) {
        switch value {
        case .null: bytes.append(contentsOf: "null".utf8)
        case .bool(let value): bytes.append(contentsOf: (value ? "true" : "false").utf8)
        case .integer(let value): bytes.append(contentsOf: String(value).utf8)
        case .number(let value):
            precondition(value.isFinite, "JSON has no infinite number and no NaN.")
            if case .integer(let whole) = JSONValue(value) {
                bytes.append(contentsOf: String(whole).utf8)
            } else {
                bytes.append(contentsOf: value.description.utf8)
            }
        case .string(let value): write(value)
        case .array(let elements):
            list(open: "[", close: "]", elements, level: level) { writer, element in
                writer.write(element, level: level + 1)
            }
        case .object(let members):
            list(open: "{", close: "}", JSONValue.sorted(members.keys), level: level) {
                writer, key in
                writer.write(key)
                writer.bytes.append(UInt8(ascii: ":"))
                if writer.indent != nil { writer.bytes.append(0x20) }
                writer.write(members[key] ?? .null, level: level + 1)
            }
        }
    }

    private mutating func list<Element>(
        open: Unicode.Scalar, close: Unicode.Scalar, _ elements: [Element], level: Int,
        _ each: (inout JSONWriter, Element) -> Void
    ) {
        bytes.append(UInt8(ascii: open))
        for (index, element) in elements.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            newLine(level + 1)
            each(&self, element)
        }
        if !elements.isEmpty { newLine(level) }
        bytes.append(UInt8(ascii: close))
    }

    private mutating func newLine(_ level: Int) {
        guard let indent else { return }
        bytes.append(0x0A)
        bytes.append(contentsOf: repeatElement(0x20, count: indent * level))
    }

    private mutating func write(_ string: String) {
        bytes.append(UInt8(ascii: "\""))
        for byte in string.utf8 {
            switch byte {
            case 0x22: bytes.append(contentsOf: [0x5C, 0x22])
            case 0x5C: bytes.append(contentsOf: [0x5C, 0x5C])
            case 0x0A: bytes.append(contentsOf: [0x5C, UInt8(ascii: "n")])
            case 0x0D: bytes.append(contentsOf: [0x5C, UInt8(ascii: "r")])
            case 0x09: bytes.append(contentsOf: [0x5C, UInt8(ascii: "t")])
            case 0x00..<0x20:
                bytes.append(contentsOf: "\\u00".utf8)
                bytes.append(Hex.digit(byte >> 4))
                bytes.append(Hex.digit(byte & 15))
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }
}
