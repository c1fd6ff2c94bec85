internal import APNs
internal import JSON

extension JobParser {
    /// The kinds of value that Apple documents for the keys of `aps` ("Generating a remote
    /// notification").
    ///
    /// APNs itself accepts other kinds and the device then shows nothing, so they are refused
    /// here. Keys that are not in the list are left alone, as Apple may add some.
    private static let apsKinds: [String: [String]] = [
        "alert": ["a string", "an object"], "badge": ["a number"],
        "sound": ["a string", "an object"], "thread-id": ["a string"], "category": ["a string"],
        "content-available": ["a number"], "mutable-content": ["a number"],
        "target-content-id": ["a string"], "interruption-level": ["a string"],
        "relevance-score": ["a number"], "filter-criteria": ["a string"],
        "stale-date": ["a number"], "content-state": ["an object"], "timestamp": ["a number"],
        "event": ["a string"], "dismissal-date": ["a number"], "attributes-type": ["a string"],
        "attributes": ["an object"], "content-changed": ["true or false"],
    ]

    /// The body in canonical form, or nil when it is wrong.
    mutating func checkedPayload(
        _ payload: [String: JSONValue], _ pushType: PushType?
    ) -> [UInt8]? {
        let before = fields.faults.count
        checkAps(payload["aps"], pushType)
        let body = JSONValue.object(payload).serialized()
        let limit = pushType?.payloadLimit ?? PayloadLimit.voip
        if body.count > limit {
            fields.fault(
                "payload",
                "has \(body.count) bytes, \(body.count - limit) more than APNs takes (\(limit)); "
                    + "shorten it")
        }
        return fields.faults.count == before ? body : nil
    }

    private mutating func checkAps(_ value: JSONValue?, _ pushType: PushType?) {
        guard let value else {
            if pushType?.needsAps != false {
                apsFault(nil, "is missing; give {\"alert\": \"…\"} or {\"content-available\": 1}")
            }
            return
        }
        guard let aps = value.object else {
            apsFault(nil, "is \(value.kind); write an object")
            return
        }
        for key in JSONValue.sorted(aps.keys) {
            guard let kinds = Self.apsKinds[key], let value = aps[key],
                !kinds.contains(value.kind)
            else { continue }
            apsFault(
                key,
                "is \(value.kind), with which devices show nothing; write "
                    + kinds.joined(separator: " or "))
        }
        guard pushType == .background else { return }
        if aps["content-available"] != 1 {
            apsFault(
                "content-available", "must be 1 for push type background; set it to 1")
        }
        for key in ["alert", "badge", "sound"] where aps[key] != nil {
            apsFault(
                key,
                "is not allowed for push type background; remove it or use push type alert")
        }
    }

    private mutating func apsFault(_ key: String?, _ message: String) {
        let aps = JSONFields([:], path: "$.payload.aps", known: [])
        let path = key.map { aps.path(of: $0) } ?? "$.payload.aps"
        fields.faults.append(JobFault(path: path, message: message))
    }
}
