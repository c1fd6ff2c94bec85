internal import JSON

extension JobParser {
    /// The audience: exactly one source.
    mutating func audience() -> Audience? {
        guard fields.has("audience") else {
            fields.missing("audience", "give {\"redis_list\": \"key\"}, a file or tokens")
            return nil
        }
        guard let members = fields.object("audience") else { return nil }
        let sources = ["tokens", "redis_list", "file"]
        var audience = JSONFields(members, path: "$.audience", known: sources)
        defer { fields.faults += audience.faults }
        let given = sources.filter { audience.has($0) }
        guard given.count == 1 else {
            let what = given.isEmpty ? "names no source" : "names \(given.joined(separator: ", "))"
            audience.faults.append(
                JobFault(
                    path: "$.audience",
                    message: "\(what); give exactly one of \(sources.joined(separator: ", "))"))
            return nil
        }
        switch given[0] {
        case "tokens": return tokens(&audience).map { .tokens($0) }
        case "redis_list": return place("redis_list", &audience).map { .redisList($0) }
        default: return place("file", &audience).map { .file($0) }
        }
    }

    private func place(_ key: String, _ audience: inout JSONFields) -> String? {
        guard let text = audience.string(key) else { return nil }
        guard (1...Audience.maximumName).contains(text.utf8.count), !text.utf8.contains(0) else {
            audience.fault(
                key,
                "has \(text.utf8.count) bytes; write 1 to \(Audience.maximumName) without NUL")
            return nil
        }
        return text
    }

    private func tokens(_ audience: inout JSONFields) -> [String]? {
        guard let elements = audience.array("tokens", of: " of strings") else { return nil }
        guard !elements.isEmpty else {
            audience.fault("tokens", "is empty; give at least one device token")
            return nil
        }
        guard elements.count <= Audience.maximumInline else {
            audience.fault(
                "tokens",
                "has \(elements.count) tokens, at most \(Audience.maximumInline) fit into a job; "
                    + "put them into a Redis list or a file")
            return nil
        }
        var tokens: [String] = []
        tokens.reserveCapacity(elements.count)
        var wrong = 0
        for (index, element) in elements.enumerated() {
            if let text = element.string {
                tokens.append(text)
                continue
            }
            wrong += 1
            guard wrong <= Self.maximumEntryFaults else { continue }
            audience.faults.append(
                JobFault(
                    path: "$.audience.tokens[\(index)]",
                    message: "is \(element.kind); write a device token as a string"))
        }
        if wrong > Self.maximumEntryFaults {
            let more = wrong - Self.maximumEntryFaults
            audience.fault("tokens", "has \(more) more entries that are no strings")
        }
        return wrong == 0 ? tokens : nil
    }

    /// The most entries of one array that are reported one by one.
    static var maximumEntryFaults: Int { 20 }
}
