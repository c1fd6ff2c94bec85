/// A JSON value (RFC 8259), for jobs, configuration and answers on cold paths.
///
/// A number without a fractional part that fits 64 bits is an `integer` however it was spelt
/// (`1`, `1.0`, `1e0`), so that one meaning has one canonical text.
package enum JSONValue: Sendable, Equatable {
    case null
    case bool(Bool)
    case integer(Int64)
    case number(Double)
    case string(String)
    case array([JSONValue])
    case object([String: JSONValue])

    /// The member of an object, or nil when it is absent or this is no object.
    package subscript(key: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members[key]
    }

    /// The element of an array, or nil when it is absent or this is no array.
    package subscript(index: Int) -> JSONValue? {
        guard case .array(let elements) = self, elements.indices.contains(index) else {
            return nil
        }
        return elements[index]
    }

    /// Whether this is `null`.
    package var isNull: Bool { self == .null }

    /// The truth value, or nil for another kind.
    package var bool: Bool? {
        guard case .bool(let value) = self else { return nil }
        return value
    }

    /// The whole number, or nil for another kind.
    package var integer: Int64? {
        guard case .integer(let value) = self else { return nil }
        return value
    }

    /// The number, whole or not, or nil for another kind.
    package var double: Double? {
        switch self {
        case .integer(let value): Double(value)
        case .number(let value): value
        default: nil
        }
    }

    /// The text, or nil for another kind.
    package var string: String? {
        guard case .string(let value) = self else { return nil }
        return value
    }

    /// The elements, or nil for another kind.
    package var array: [JSONValue]? {
        guard case .array(let value) = self else { return nil }
        return value
    }

    /// The members, or nil for another kind.
    package var object: [String: JSONValue]? {
        guard case .object(let value) = self else { return nil }
        return value
    }

    /// The kind in words, for a sentence such as "is a string, not an object".
    package var kind: String {
        switch self {
        case .null: "null"
        case .bool: "true or false"
        case .integer, .number: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByBooleanLiteral, ExpressibleByFloatLiteral, ExpressibleByArrayLiteral,
    ExpressibleByDictionaryLiteral
{
    package init(stringLiteral value: String) { self = .string(value) }
    package init(integerLiteral value: Int64) { self = .integer(value) }
    package init(booleanLiteral value: Bool) { self = .bool(value) }
    package init(floatLiteral value: Double) { self = JSONValue(value) }
    package init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    package init(dictionaryLiteral elements: (String, JSONValue)...) {
        self = .object(Dictionary(elements, uniquingKeysWith: { _, last in last }))
    }

    /// A number, which becomes an `integer` when it has no fractional part and is exact.
    package init(_ value: Double) {
        precondition(value.isFinite, "JSON has no infinite number and no NaN.")
        if value.magnitude <= 9_007_199_254_740_992, let whole = Int64(exactly: value) {
            self = .integer(whole)
        } else {
            self = .number(value)
        }
    }
}
