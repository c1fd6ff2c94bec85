internal import APNs
internal import Base
internal import JSON

extension Job {
    /// The fields of a job.
    package static let fields = [
        "version", "id", "app", "environment", "push_type", "payload", "priority", "expires_at",
        "ttl", "collapse_id", "audience", "deadline", "on_unknown", "retry", "weight",
    ]

    /// Reads and checks a job, and reports all its faults at once.
    ///
    /// - Parameters:
    ///   - bytes: JSON text.
    ///   - now: Milliseconds since the epoch; a deadline before it is a fault.
    /// - Returns: The job with its defaults.
    /// - Throws: All faults.
    package static func parse(_ bytes: [UInt8], now: Int64) throws(JobFaults) -> Job {
        let json: JSONValue
        do {
            json = try JSONValue.parse(bytes, maximumBytes: maximumBytes)
        } catch {
            let message = "is not JSON: \(error); correct the text"
            throw JobFaults(id: nil, faults: [JobFault(path: "$", message: message)])
        }
        guard let members = json.object else {
            let message = "is \(json.kind); a job is one JSON object"
            throw JobFaults(id: nil, faults: [JobFault(path: "$", message: message)])
        }
        var parser = JobParser(members, now: now)
        let parts = parser.read()
        guard let parts, parser.fields.faults.isEmpty else {
            throw JobFaults(
                id: json["id"]?.string, app: json["app"]?.string, faults: parser.fields.faults)
        }
        return Job(
            id: parts.id, app: parts.app, environment: parts.environment,
            pushType: parts.pushType, payload: parts.payload, priority: parts.priority,
            expiration: parts.expiration, collapseID: parts.collapseID, audience: parts.audience,
            deadline: parts.deadline, onUnknown: parts.onUnknown, retry: parts.retry,
            weight: parts.weight, canonical: json.serialized())
    }
}

/// Reads a job field by field and goes on after a fault, so that all are found.
struct JobParser {
    var fields: JSONFields
    let now: Int64

    init(_ members: [String: JSONValue], now: Int64) {
        fields = JSONFields(members, path: "$", known: Job.fields)
        self.now = now
    }

    /// The job without its canonical text; nil only with at least one fault.
    mutating func read() -> Job? {
        _ = fields.integer("version", in: Job.version...Job.version)
        let id = required("id", "name the campaign; a second job with the same id does not run")
        let app = required("app", "name an app of the worker's apps file")
        let environment = fields.choice("environment", PushEnvironment.self)
        let payload = fields.object("payload")
        if !fields.has("payload") {
            fields.missing("payload", "give the notification: {\"aps\": {\"alert\": \"…\"}}")
        }
        let pushType = pushType(payload)
        let priority = priority(pushType)
        let body = payload.flatMap { checkedPayload($0, pushType) }
        let expiration = expiration(pushType)
        let collapseID = collapseID()
        let audience = audience()
        let deadline = deadline()
        let onUnknown = fields.choice("on_unknown", Job.OnUnknown.self) ?? .resend
        let retry = retry()
        let weight = fields.integer("weight", in: 1...10) ?? 1
        guard let id, let app, let body, let audience, let pushType, let priority else {
            return nil
        }
        return Job(
            id: id, app: app, environment: environment, pushType: pushType, payload: body,
            priority: priority, expiration: expiration, collapseID: collapseID,
            audience: audience, deadline: deadline, onUnknown: onUnknown, retry: retry,
            weight: Int(weight), canonical: [])
    }

    private mutating func required(_ key: String, _ advice: String) -> String? {
        guard fields.has(key) else {
            fields.missing(key, advice)
            return nil
        }
        return fields.name(key)
    }

    /// The push type; nil when it is wrong, so that nothing else is judged by a guess.
    private mutating func pushType(_ payload: [String: JSONValue]?) -> PushType? {
        guard !fields.has("push_type") else { return fields.choice("push_type", PushType.self) }
        let aps = payload?["aps"]?.object ?? [:]
        return Array(aps.keys) == ["content-available"] ? .background : .alert
    }

    private mutating func priority(_ pushType: PushType?) -> Priority? {
        guard let value = fields.members["priority"] else { return pushType?.standardPriority }
        let priority: Priority?
        switch value {
        case .integer(let number): priority = Priority(rawValue: Int(clamping: number))
        case .string(let name): priority = Priority(name: name)
        default: priority = nil
        }
        guard let priority else {
            let known = Priority.allCases.map { "\($0.name) (\($0.rawValue))" }
            let hint = Nearest.hint(
                for: value.string ?? "", among: Priority.allCases.map(\.name))
            fields.fault(
                "priority", "is \(value.text)\(hint); write \(known.joined(separator: ", "))")
            return nil
        }
        if let pushType, !pushType.priorities.contains(priority) {
            let allowed = pushType.priorities.map { "\($0.rawValue)" }.joined(separator: " or ")
            fields.fault(
                "priority",
                "is \(priority.rawValue), which APNs refuses for push type "
                    + "\(pushType.rawValue); write \(allowed)")
        }
        return priority
    }

    private mutating func expiration(_ pushType: PushType?) -> Job.Expiration {
        if fields.has("ttl"), fields.has("expires_at") {
            fields.fault("ttl", "and expires_at are both given; give one of them")
        }
        var expiration = Job.Expiration.after(pushType == .pushtotalk ? 0 : Job.standardTTL)
        if let ttl = fields.integer("ttl", in: 0...31_536_000) { expiration = .after(ttl) }
        if let time = fields.time("expires_at") {
            if time > 0, time <= now {
                fields.fault("expires_at", "is past; give a later time, or 0 for one attempt")
            }
            expiration = .at(time / 1000)
        }
        if pushType == .pushtotalk, expiration != .after(0), expiration != .at(0) {
            fields.fault(
                fields.has("ttl") ? "ttl" : "expires_at",
                "must be 0 for push type pushtotalk; write 0 or leave it out")
        }
        return expiration
    }

    private mutating func collapseID() -> String? {
        guard let text = fields.string("collapse_id") else { return nil }
        let limit = CollapseID.maximumBytes
        if !(1...limit).contains(text.utf8.count) {
            fields.fault("collapse_id", "has \(text.utf8.count) bytes; write 1 to \(limit)")
        } else if text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) || text.first == " "
            || text.last == " "
        {
            fields.fault(
                "collapse_id",
                "has a control character or a space at an end; it must fit into a header")
        }
        return text
    }

    private mutating func deadline() -> Int64? {
        guard let time = fields.time("deadline") else { return nil }
        if time <= now {
            fields.fault(
                "deadline", "is past (\(WallClock.rfc3339(milliseconds: time))); give a later time")
        }
        return time
    }

    private mutating func retry() -> RetryPolicy {
        let known = [
            "max_tries", "base_delay_ms", "max_delay_ms", "server_error_delay_s",
            "server_error_tries",
        ]
        let read = fields.nested("retry", known: known) { retry in
            var policy = RetryPolicy()
            let tries = 1...Int64(RetryPolicy.maximumTries)
            if let value = retry.integer("max_tries", in: tries) { policy.maxTries = Int(value) }
            if let value = retry.integer("base_delay_ms", in: 1...3_600_000) {
                policy.baseDelay = value
            }
            if let value = retry.integer("max_delay_ms", in: 1...86_400_000) {
                policy.maxDelay = value
            } else if policy.baseDelay > policy.maxDelay {
                policy.maxDelay = policy.baseDelay
            }
            if policy.maxDelay < policy.baseDelay {
                retry.fault("max_delay_ms", "is below base_delay_ms; raise it or lower the other")
            }
            if let value = retry.integer("server_error_delay_s", in: 0...86_400) {
                policy.serverErrorDelay = value
            }
            if let value = retry.integer("server_error_tries", in: tries) {
                policy.serverErrorTries = Int(value)
            }
            return policy
        }
        return read ?? RetryPolicy()
    }
}
