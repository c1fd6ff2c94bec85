internal import Base

/// One thing that is wrong with a JSON document.
package struct JSONFault: Equatable, Sendable, CustomStringConvertible {
    /// Where: a JSON path such as `$.audience.tokens[3]`.
    package let path: String
    /// What is wrong and what to do, to be read after the path.
    package let message: String

    package init(path: String, message: String) {
        self.path = path
        self.message = message
    }

    package var description: String { "\(path) \(message)" }
}

/// Reads the members of one JSON object and collects what is wrong with them.
///
/// Each getter returns nil for an absent member and for a wrong one, which it reports; so reading
/// goes on to the end and all faults are told at once.
package struct JSONFields {
    package let path: String
    package let members: [String: JSONValue]
    package var faults: [JSONFault] = []

    /// Takes an object and reports the members that are not known.
    ///
    /// - Parameters:
    ///   - members: The object.
    ///   - path: Its JSON path.
    ///   - known: The names of all members there may be.
    package init(_ members: [String: JSONValue], path: String, known: [String]) {
        self.path = path
        self.members = members
        for key in JSONValue.sorted(members.keys) where !known.contains(key) {
            let hint = Nearest.hint(for: key, among: known)
            let advice = hint.isEmpty ? "remove it; known are \(known.joined(separator: ", "))" : ""
            fault(key, "is not a known field\(hint)\(advice.isEmpty ? "" : "; \(advice)")")
        }
    }

    /// The path of a member.
    package func path(of key: String) -> String { path + Self.step(key) }

    /// One step of a path: `.key`, or `["a key"]` when it is no plain name.
    package static func step(_ key: String) -> String {
        let isPlain = key.utf8.allSatisfy {
            $0 == UInt8(ascii: "_") || (0x30...0x39).contains($0)
                || (0x61...0x7A).contains($0 | 0x20)
        }
        return isPlain && !key.isEmpty ? ".\(key)" : "[\(JSONValue.string(key).text)]"
    }

    /// Whether a text has 1 to 64 letters, digits, dots, underscores and dashes, which is safe in
    /// keys and logs.
    package static func isName(_ text: String) -> Bool {
        let isSafe = text.utf8.allSatisfy {
            (0x30...0x39).contains($0) || (0x61...0x7A).contains($0 | 0x20)
                || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-")
        }
        return isSafe && (1...64).contains(text.utf8.count)
    }

    /// Reports a fault of a member.
    package mutating func fault(_ key: String, _ message: String) {
        faults.append(JSONFault(path: path(of: key), message: message))
    }

    /// Whether the member is there, of whatever kind.
    package func has(_ key: String) -> Bool { members[key] != nil }

    /// Reports a member that must be there.
    package mutating func missing(_ key: String, _ advice: String) {
        fault(key, "is missing; \(advice)")
    }

    /// A text.
    package mutating func string(_ key: String) -> String? {
        guard let value = members[key] else { return nil }
        guard let string = value.string else {
            fault(key, "is \(value.kind); write a string")
            return nil
        }
        return string
    }

    /// An object's members.
    package mutating func object(_ key: String) -> [String: JSONValue]? {
        guard let value = members[key] else { return nil }
        guard let object = value.object else {
            fault(key, "is \(value.kind); write an object")
            return nil
        }
        return object
    }

    /// What `body` makes of an object's members; what it finds wrong is reported here.
    ///
    /// - Parameters:
    ///   - key: The member.
    ///   - known: The names of all members that the object may have.
    ///   - body: Reads the object, if there is one.
    /// - Returns: What `body` returned, or nil without an object.
    package mutating func nested<Value>(
        _ key: String, known: [String], _ body: (inout JSONFields) -> Value?
    ) -> Value? {
        guard let members = object(key) else { return nil }
        var inner = JSONFields(members, path: path(of: key), known: known)
        let value = body(&inner)
        faults += inner.faults
        return value
    }

    /// The elements of an array; `elements` completes the advice, such as ` of strings`.
    package mutating func array(_ key: String, of elements: String = "") -> [JSONValue]? {
        guard let value = members[key] else { return nil }
        guard let array = value.array else {
            fault(key, "is \(value.kind); write an array\(elements)")
            return nil
        }
        return array
    }

    /// True or false.
    package mutating func truth(_ key: String) -> Bool? {
        guard let value = members[key] else { return nil }
        guard let truth = value.bool else {
            fault(key, "is \(value.kind); write true or false")
            return nil
        }
        return truth
    }

    /// A number within `range`, whole or not.
    package mutating func number(_ key: String, in range: ClosedRange<Double>) -> Double? {
        guard let value = members[key] else { return nil }
        let wanted =
            "a number from \(JSONValue(range.lowerBound).text) to "
            + JSONValue(range.upperBound).text
        guard let number = value.double else {
            fault(key, "is \(value.kind); write \(wanted)")
            return nil
        }
        guard range.contains(number) else {
            fault(key, "is \(value.text); write \(wanted)")
            return nil
        }
        return number
    }

    /// A whole number within `range`.
    package mutating func integer(_ key: String, in range: ClosedRange<Int64>) -> Int64? {
        guard let value = members[key] else { return nil }
        let wanted = "a whole number from \(range.lowerBound) to \(range.upperBound)"
        guard let number = value.integer else {
            fault(key, "is \(value.double == nil ? value.kind : value.text); write \(wanted)")
            return nil
        }
        guard range.contains(number) else {
            fault(key, "is \(number); write \(wanted)")
            return nil
        }
        return number
    }

    /// A name: see `isName`.
    package mutating func name(_ key: String) -> String? {
        guard let text = string(key) else { return nil }
        guard Self.isName(text) else {
            fault(
                key,
                "is \(shown(text)); write 1 to 64 letters, digits, dots, underscores or dashes")
            return nil
        }
        return text
    }

    /// One of the raw values of an enumeration.
    package mutating func choice<Choice: RawRepresentable & CaseIterable>(
        _ key: String, _: Choice.Type
    ) -> Choice? where Choice.RawValue == String {
        guard let text = string(key) else { return nil }
        if let choice = Choice(rawValue: text) { return choice }
        let known = Choice.allCases.map(\.rawValue)
        let hint = Nearest.hint(for: text, among: known)
        fault(key, "is \(shown(text))\(hint); write one of \(known.joined(separator: ", "))")
        return nil
    }

    /// A point in time in UNIX milliseconds, from RFC 3339 text or UNIX seconds.
    package mutating func time(_ key: String) -> Int64? {
        guard let value = members[key] else { return nil }
        let advice = "write RFC 3339 such as 2030-01-31T09:00:00Z or UNIX seconds"
        switch value {
        case .string(let text):
            if let time = WallClock.parseRFC3339(text) { return time }
            fault(key, "is \(shown(text)), which is not a time; \(advice)")
        case .integer(let seconds):
            if (0..<100_000_000_000).contains(seconds) { return seconds * 1000 }
            let what = seconds < 0 ? "is before 1970" : "looks like milliseconds"
            fault(key, "\(what); \(advice)")
        default: fault(key, "is \(value.kind); \(advice)")
        }
        return nil
    }

    /// A text in quotes, cut to what fits into a line.
    package func shown(_ text: String) -> String {
        let cut = text.count > 40 ? "\(text.prefix(40))…" : text
        return JSONValue.string(cut).text
    }
}
