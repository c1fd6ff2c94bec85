internal import Base
internal import JSON

/// The names of deeds in a script.
enum DeedKind: String, CaseIterable {
    case answer, delay, silence, reset, goaway, close, freeze, limit, window

    /// The members of the deed's object.
    var known: [String] {
        switch self {
        case .answer:
            [
                "status", "reason", "text", "size", "frames", "timestamp", "apns_id",
                "retry_after", "retry_after_date", "date_skew_seconds", "delay_ms",
            ]
        case .delay: ["ms"]
        case .silence: ["processed"]
        case .reset: ["code", "then", "processed"]
        case .goaway: ["last", "code", "reason", "text", "frames"]
        case .close: ["processed", "tcp_reset"]
        case .freeze: []
        case .limit: ["streams", "back_after_ms"]
        case .window: ["size", "updates"]
        }
    }
}

extension ScriptReader {
    /// The most streams, and the largest window in bytes (RFC 9113 section 6.5.2).
    static let streamLimit: Int64 = 1_000_000
    static let windowLimit: Int64 = 2_147_483_647
    /// Bytes of a reason or of debug data.
    static let reasonLimit = 1000

    /// The one deed in an object.
    ///
    /// `kinds` are the deeds that may stand here; `besides` are members of the object that are no
    /// deeds and are read elsewhere.
    mutating func deed(
        _ members: [String: JSONValue], path: String, kinds: [String], besides: [String] = []
    ) -> Deed? {
        if besides.isEmpty {
            faults += JSONFields(members, path: path, known: kinds).faults
        }
        let named = JSONValue.sorted(members.keys).filter(kinds.contains)
        guard let name = named.first, let kind = DeedKind(rawValue: name) else {
            if members.keys.allSatisfy(besides.contains) {
                faults.append(
                    JSONFault(
                        path: path,
                        message: "names no deed; write one of "
                            + kinds.joined(separator: ", ")))
            }
            return nil
        }
        guard named.count == 1 else {
            faults.append(
                JSONFault(
                    path: path,
                    message: "names \(named.joined(separator: " and ")); write one deed"))
            return nil
        }
        guard let object = members[name]?.object else {
            faults.append(
                JSONFault(
                    path: path + "." + name,
                    message: "is \(members[name]?.kind ?? "nothing"); write an object"))
            return nil
        }
        var fields = JSONFields(object, path: path + "." + name, known: kind.known)
        defer { faults += fields.faults }
        switch kind {
        case .answer: return answer(&fields).map { .answer($0) }
        case .delay:
            if !fields.has("ms") { fields.missing("ms", "write milliseconds") }
            return fields.milliseconds("ms").map { .delay($0) }
        case .silence: return .silence(processed: fields.truth("processed") ?? false)
        case .reset: return reset(&fields)
        case .goaway: return .goAway(goAway(&fields))
        case .close:
            return .close(
                processed: fields.truth("processed") ?? false,
                reset: fields.truth("tcp_reset") ?? false)
        case .freeze: return .freeze
        case .limit:
            if !fields.has("streams") { fields.missing("streams", "write a number of streams") }
            let back = fields.milliseconds("back_after_ms")
            return fields.integer("streams", in: 0...Self.streamLimit)
                .map { .limit(streams: Int($0), back: back) }
        case .window:
            let size = fields.integer("size", in: 0...Self.windowLimit) ?? 0
            return .window(size: Int(size), updates: fields.truth("updates") ?? false)
        }
    }

    private func reset(_ fields: inout JSONFields) -> Deed {
        let code = fields.errorCode("code") ?? 7
        let then = fields.errorCode("then")
        let processed = fields.truth("processed") ?? false
        if processed, code == 7 {
            fields.fault(
                "processed",
                "contradicts REFUSED_STREAM, which says that nothing was processed; write another "
                    + "code")
        }
        return .reset(code: code, then: then, processed: processed)
    }

    private func goAway(_ fields: inout JSONFields) -> Deed.GoAway {
        var goAway = Deed.GoAway()
        let advice = "write this, previous, all or the number of a stream (odd, or 0)"
        switch fields.members["last"] {
        case nil: break
        case .string("this"): goAway.last = .this
        case .string("previous"): goAway.last = .previous
        case .string("all"): goAway.last = .all
        case .integer(let number)
        where (0...Int64(Int32.max)).contains(number) && (number == 0 || number % 2 == 1):
            goAway.last = .stream(Int32(number))
        case let other?: fields.fault("last", "is \(other.text); \(advice)")
        }
        goAway.code = fields.errorCode("code") ?? 0
        let text = fields.limitedText("text")
        if let reason = fields.limitedText("reason") {
            goAway.debug = Deed.GoAway.debug(reason: reason)
            if text != nil { fields.fault("text", "stands beside reason; remove one of them") }
        } else if let text {
            goAway.debug = Array(text.utf8)
        }
        goAway.frames = fields.integer("frames", in: 1...2).map { Int($0) } ?? 1
        return goAway
    }

    private func answer(_ fields: inout JSONFields) -> ScriptedAnswer? {
        if !fields.has("status") { fields.missing("status", "write an HTTP status") }
        let status = fields.integer("status", in: 200...599)
        var answer = ScriptedAnswer(status: status.map { Int($0) } ?? 200)
        answer.reason = fields.limitedText("reason")
        answer.text = fields.string("text")
        if let text = answer.text {
            if fields.has("reason") {
                fields.fault("text", "stands beside reason; remove one of them")
            }
            if text.isEmpty, fields.has("size") {
                fields.fault("size", "can't be reached by repeating an empty text; remove it")
            }
        }
        let size = fields.integer("size", in: 0...Int64(ScriptedAnswer.bodyLimit))
        answer.size = size.map { Int($0) } ?? 0
        answer.frames = fields.integer("frames", in: 1...1000).map { Int($0) } ?? 1
        answer.timestamp = timestamp(&fields)
        answer.id = fields.choice("apns_id", ScriptedAnswer.ID.self) ?? .same
        if let seconds = fields.integer("retry_after", in: 0...Self.numberLimit) {
            answer.retryAfter = .seconds(seconds)
        }
        if let seconds = fields.integer("retry_after_date", in: Self.skews) {
            if answer.retryAfter != nil {
                fields.fault("retry_after_date", "stands beside retry_after; remove one of them")
            }
            answer.retryAfter = .date(seconds)
        }
        answer.dateSkew = fields.integer("date_skew_seconds", in: Self.skews)
        answer.delay = fields.milliseconds("delay_ms") ?? 0
        return status == nil ? nil : answer
    }

    private func timestamp(_ fields: inout JSONFields) -> ScriptedAnswer.Timestamp? {
        fields.nested("timestamp", known: ["unit", "form", "place", "ago_seconds"]) { inner in
            var time = ScriptedAnswer.Timestamp()
            time.unit = inner.choice("unit", ScriptedAnswer.Timestamp.Unit.self) ?? time.unit
            time.form = inner.choice("form", ScriptedAnswer.Timestamp.Form.self) ?? time.form
            time.place = inner.choice("place", ScriptedAnswer.Timestamp.Place.self) ?? time.place
            time.ago = inner.integer("ago_seconds", in: Self.skews) ?? time.ago
            return time
        }
    }

    /// Seconds that a clock may be off.
    static let skews = -numberLimit...numberLimit
}

extension JSONFields {
    /// An error code of HTTP/2 by name or number.
    mutating func errorCode(_ key: String) -> UInt32? {
        guard let value = members[key] else { return nil }
        if let number = value.integer, let code = UInt32(exactly: number) { return code }
        guard let name = value.string else {
            fault(key, "is \(value.text); write the name or number of an HTTP/2 error code")
            return nil
        }
        if let code = Deed.errorCodes.firstIndex(of: name) { return UInt32(code) }
        let hint = Nearest.hint(for: name, among: Deed.errorCodes)
        fault(key, "is \(shown(name)), which is no error code of HTTP/2\(hint)")
        return nil
    }

    /// A text of at most `ScriptReader.reasonLimit` bytes.
    mutating func limitedText(_ key: String) -> String? {
        guard let text = string(key) else { return nil }
        guard text.utf8.count <= ScriptReader.reasonLimit else {
            fault(
                key,
                "has \(text.utf8.count) bytes; write at most \(ScriptReader.reasonLimit)")
            return nil
        }
        return text
    }
}
