internal import Base
package import JSON

/// Everything that is wrong with a script.
package struct ScriptFailure: Error, Equatable, CustomStringConvertible {
    /// At least one; the path `$` for a text that is no JSON object.
    package let faults: [JSONFault]

    /// All of them in one line.
    package var description: String { faults.map(\.description).joined(separator: "; ") }
}

extension Script {
    /// Reads a script's JSON text and reports all its faults at once.
    package static func read(_ bytes: [UInt8]) throws(ScriptFailure) -> Script {
        var reader = ScriptReader()
        let script = reader.script(bytes)
        guard reader.faults.isEmpty, let script else { throw ScriptFailure(faults: reader.faults) }
        return script
    }
}

/// One deed for connections that are open now, as `POST /action` takes it.
package struct ImmediateDeed: Sendable, Equatable {
    package let deed: Deed
    /// The connection's number; nil for all.
    package let connection: Int?

    /// The deeds that need no request.
    static let kinds = ["close", "freeze", "goaway", "limit", "window"]

    /// Reads an object with one deed and, beside it, `connection`.
    package static func read(_ bytes: [UInt8]) throws(ScriptFailure) -> ImmediateDeed {
        var reader = ScriptReader()
        guard let members = reader.object(bytes, limit: Script.byteLimit) else {
            throw ScriptFailure(faults: reader.faults)
        }
        var fields = JSONFields(members, path: "$", known: kinds + ["connection"])
        let connection = fields.integer("connection", in: 1...Int64(Int32.max))
        reader.faults += fields.faults
        let deed = reader.deed(members, path: "$", kinds: kinds, besides: ["connection"])
        guard reader.faults.isEmpty, let deed else { throw ScriptFailure(faults: reader.faults) }
        return ImmediateDeed(deed: deed, connection: connection.map { Int($0) })
    }
}

/// Reads the parts of a script and collects what is wrong with them.
///
/// `DeedReader.swift` and `SettingsReader.swift` hold what deeds and settings consist of.
struct ScriptReader {
    /// The largest whole number that counters take.
    static let numberLimit: Int64 = 1_000_000_000
    /// The longest time, in milliseconds: an hour.
    static let timeLimit: Int64 = 3_600_000

    var faults: [JSONFault] = []

    /// The members of a text that is one JSON object.
    mutating func object(_ bytes: [UInt8], limit: Int) -> [String: JSONValue]? {
        let json: JSONValue
        do { json = try JSONValue.parse(bytes, maximumBytes: limit) } catch {
            faults.append(JSONFault(path: "$", message: "is not JSON: \(error); correct the text"))
            return nil
        }
        guard let members = json.object else {
            faults.append(JSONFault(path: "$", message: "is \(json.kind); write an object"))
            return nil
        }
        return members
    }

    mutating func script(_ bytes: [UInt8]) -> Script? {
        guard let members = object(bytes, limit: Script.byteLimit) else { return nil }
        var root = JSONFields(members, path: "$", known: ["rules", "settings", "note"])
        var script = Script()
        _ = root.string("note")
        let rules = root.array("rules") ?? []
        if rules.count > Script.ruleLimit {
            root.fault("rules", "are \(rules.count); write at most \(Script.ruleLimit)")
        }
        let settings = root.object("settings")
        faults += root.faults
        for (index, rule) in rules.prefix(Script.ruleLimit).enumerated() {
            if let rule = self.rule(rule, path: "$.rules[\(index)]") { script.rules.append(rule) }
        }
        if let settings { script.settings = self.settings(settings, path: "$.settings") }
        return script
    }

    private mutating func rule(_ value: JSONValue, path: String) -> ScriptRule? {
        guard let members = value.object else {
            faults.append(JSONFault(path: path, message: "is \(value.kind); write an object"))
            return nil
        }
        var fields = JSONFields(members, path: path, known: ["when", "do", "limit", "note"])
        _ = fields.string("note")
        let limit = fields.integer("limit", in: 1...Self.numberLimit)
        let when = fields.object("when") ?? [:]
        if !fields.has("do") { fields.missing("do", "write {\"answer\": {…}} or another deed") }
        let does = fields.object("do")
        faults += fields.faults
        let condition = self.condition(when, path: path + ".when")
        guard let does,
            let deed = deed(does, path: path + ".do", kinds: DeedKind.allCases.map(\.rawValue))
        else { return nil }
        return ScriptRule(condition: condition, deed: deed, limit: limit.map { Int($0) })
    }

    private mutating func condition(
        _ members: [String: JSONValue], path: String
    ) -> ScriptCondition {
        var fields = JSONFields(
            members, path: path,
            known: [
                "token", "token_prefix", "token_share", "seed", "first_of_token", "topic",
                "connection", "request", "total", "seconds",
            ])
        var condition = ScriptCondition()
        condition.token = fields.digits("token")
        condition.tokenPrefix = fields.digits("token_prefix")
        let share = fields.number("token_share", in: 0...1)
        let seed = fields.integer("seed", in: 0...Int64.max)
        if let share {
            condition.tokenShare = .init(share: share, seed: UInt64(seed ?? 1))
        } else if seed != nil, !fields.has("token_share") {
            fields.fault("seed", "chooses nothing; write token_share beside it")
        }
        condition.firstOfToken = fields.integer("first_of_token", in: 1...Self.numberLimit)
            .map { Int($0) }
        condition.topic = fields.string("topic").map { Array($0.utf8) }
        condition.connection = fields.range("connection")
        condition.request = fields.range("request")
        condition.total = fields.range("total")
        condition.time = fields.nested("seconds", known: ["from", "until"]) { inner in
            let bounds = 0.0...Double(Self.numberLimit)
            let from = inner.number("from", in: bounds) ?? 0
            let until = inner.number("until", in: bounds) ?? Double(Self.numberLimit)
            if until <= from { inner.fault("until", "is not after from; write a later second") }
            guard inner.faults.isEmpty else { return nil }
            return Nanoseconds.seconds(from)..<Nanoseconds.seconds(until)
        }
        faults += fields.faults
        return condition
    }
}

extension JSONFields {
    /// Milliseconds as nanoseconds.
    mutating func milliseconds(_ key: String) -> Int64? {
        integer(key, in: 0...ScriptReader.timeLimit).map { $0 * 1_000_000 }
    }

    /// Hexadecimal digits, in lower case.
    fileprivate mutating func digits(_ key: String) -> [UInt8]? {
        guard let text = string(key) else { return nil }
        guard !text.isEmpty, text.utf8.count <= RequestCheck.tokenDigitsLimit,
            text.utf8.allSatisfy({ Hex.value($0) != nil })
        else {
            fault(
                key,
                "is \(shown(text)); write 1 to \(RequestCheck.tokenDigitsLimit) hexadecimal digits")
            return nil
        }
        return Array(text.lowercased().utf8)
    }

    /// A number for itself alone, or an object of `from`, `until` and `every`.
    fileprivate mutating func range(_ key: String) -> NumberRange? {
        guard let value = members[key] else { return nil }
        if value.integer != nil {
            return integer(key, in: 1...ScriptReader.numberLimit)
                .map { NumberRange(from: Int($0), until: Int($0)) }
        }
        guard value.object != nil else {
            fault(key, "is \(value.kind); write a number or an object with from, until and every")
            return nil
        }
        return nested(key, known: ["from", "until", "every"]) { inner in
            let bounds = 1...ScriptReader.numberLimit
            let every = inner.integer("every", in: bounds)
            let from = inner.integer("from", in: bounds) ?? every ?? 1
            let until = inner.integer("until", in: bounds)
            if let until, until < from { inner.fault("until", "is less than \(from); raise it") }
            return NumberRange(
                from: Int(from), until: until.map { Int($0) }, every: Int(every ?? 1))
        }
    }
}
