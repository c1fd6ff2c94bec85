import APNs
import Campaign
import JSON
import Testing

/// 30 November 2026.
let now: Int64 = 1_796_000_000_000

/// A job of the smallest kind with other members set or, with nil, removed.
func job(_ changes: [String: JSONValue?] = [:]) -> [UInt8] {
    var members: [String: JSONValue] = [
        "id": "autumn", "app": "shop", "payload": ["aps": ["alert": "Hello"]],
        "audience": ["tokens": ["aa11", "no token"]],
    ]
    for (key, value) in changes { members[key] = value }
    return JSONValue.object(members).serialized()
}

@Suite("Jobs")
struct JobTests {
    /// The faults of a job, one line each.
    static func faults(_ bytes: [UInt8]) -> [String] {
        do {
            _ = try Job.parse(bytes, now: now)
            return []
        } catch { return error.faults.map(\.description) }
    }

    @Test("the smallest job gets the documented defaults")
    func defaults() throws {
        let job = try Job.parse(job(), now: now)
        #expect(job.id == "autumn")
        #expect(job.environment == nil)
        #expect(job.pushType == .alert)
        #expect(job.priority == .immediate)
        #expect(job.payload == Array("{\"aps\":{\"alert\":\"Hello\"}}".utf8))
        #expect(job.audience == .tokens(["aa11", "no token"]))
        #expect(job.onUnknown == .resend)
        #expect(job.retry == RetryPolicy())
        #expect(job.weight == 1)
        #expect(job.collapseID == nil)
        #expect(job.wireExpiration(now: now) == now / 1000 + 30 * 86_400)
        #expect(!job.isOver(now: now))
    }

    @Test("every field is read")
    func everyField() throws {
        let bytes = job([
            "version": 1, "environment": "sandbox", "push_type": "alert", "priority": "lowest",
            "expires_at": "2026-12-24T00:00:00Z", "collapse_id": "news", "deadline": 1_796_000_060,
            "on_unknown": "skip", "weight": 10, "audience": ["redis_list": "lists:all"],
            "retry": [
                "max_tries": 9, "base_delay_ms": 100, "max_delay_ms": 1000,
                "server_error_delay_s": 1, "server_error_tries": 2,
            ],
        ])
        let job = try Job.parse(bytes, now: now)
        #expect(job.environment == .sandbox)
        #expect(job.priority == .lowest)
        #expect(job.wireExpiration(now: now) == 1_798_070_400)
        #expect(job.collapseID == "news")
        #expect(job.deadline == 1_796_000_060_000)
        #expect(job.isOver(now: 1_796_000_060_000))
        #expect(job.onUnknown.tries == 0)
        #expect(job.audience == .redisList("lists:all"))
        #expect(job.retry.maxTries == 9)
        #expect(job.retry.baseDelay == 100)
        #expect(job.retry.serverErrorTries == 2)
        #expect(job.fault(profileEnvironment: .production)?.path == "$.environment")
        #expect(job.fault(profileEnvironment: .sandbox) == nil)
    }

    @Test("a payload with nothing but content-available is a background push of priority 5")
    func background() throws {
        let quiet: JSONValue = ["aps": ["content-available": 1], "sync": "all"]
        let job = try Job.parse(job(["payload": quiet]), now: now)
        #expect(job.pushType == .background)
        #expect(job.priority == .conservePower)
    }

    @Test("expires_at 0 and ttl 0 mean one attempt")
    func oneAttempt() throws {
        for key in ["expires_at", "ttl"] {
            let job = try Job.parse(job([key: 0]), now: now)
            #expect(job.wireExpiration(now: now) == 0)
            #expect(!job.isOver(now: now))
        }
    }

    @Test(
        "a wrong field is reported with its path and what to do",
        arguments: [
            (["id": nil], "$.id is missing"), (["id": "a b"], "$.id is \"a b\"; write 1 to 64"),
            (["app": 7], "$.app is a number; write a string"),
            (["version": 2], "$.version is 2; write a whole number from 1 to 1"),
            (["push_tpye": ""], "$.push_tpye is not a known field (did you mean \"push_type\"?)"),
            (["environment": "prod"], "$.environment is \"prod\""),
            (["push_type": "alrt"], "(did you mean \"alert\"?)"),
            (["payload": "Hello"], "$.payload is a string; write an object"),
            (["payload": ["x": 1]], "$.payload.aps is missing"),
            (["payload": ["aps": ["badge": "1"]]], "$.payload.aps.badge is a string"),
            (["priority": 7], "$.priority is 7; write immediate (10)"),
            (["push_type": "background"], "$.payload.aps[\"content-available\"] must be 1"),
            (["push_type": "background"], "$.payload.aps.alert is not allowed"),
            (["ttl": 5, "expires_at": 0], "$.ttl and expires_at are both given"),
            (["expires_at": 1_700_000_000], "$.expires_at is past"),
            (["expires_at": 1_796_000_000_000], "$.expires_at looks like milliseconds"),
            (["deadline": "2020-01-01T00:00:00Z"], "$.deadline is past"),
            (["deadline": "tomorrow"], "$.deadline is \"tomorrow\", which is not a time"),
            (["collapse_id": ""], "$.collapse_id has 0 bytes"),
            (["collapse_id": "a\nb"], "$.collapse_id has a control character"),
            (["audience": nil], "$.audience is missing"),
            (["audience": ["tokens": []]], "$.audience.tokens is empty"),
            (["audience": ["tokens": ["aa", 7]]], "$.audience.tokens[1] is a number"),
            (["audience": [:]], "$.audience names no source"),
            (["audience": ["file": "a", "redis_list": "b"]], "$.audience names redis_list, file"),
            (["audience": ["redis_set": "b"]], "$.audience.redis_set is not a known field"),
            (["on_unknown": "resnd"], "(did you mean \"resend\"?)"),
            (["weight": 11], "$.weight is 11"), (["weight": 1.5], "$.weight is 1.5"),
            (["retry": ["max_tries": 10]], "$.retry.max_tries is 10"),
            (["retry": ["max_retries": 3]], "$.retry.max_retries is not a known field"),
        ] as [([String: JSONValue?], String)])
    func wrong(changes: [String: JSONValue?], words: String) {
        let faults = Self.faults(job(changes))
        #expect(faults.contains { $0.contains(words) }, "\(faults)")
    }

    @Test("all faults of a job are reported at once, with the id for the dead letter")
    func allAtOnce() {
        let bytes = job([
            "app": nil, "priority": 3, "weight": 0, "audience": ["tokens": []], "extra": true,
        ])
        let error = #expect(throws: JobFaults.self) { try Job.parse(bytes, now: now) }
        #expect(error?.id == "autumn")
        #expect(error?.faults.count == 5)
        #expect(Set(error?.faults.map(\.path) ?? []).count == 5)
    }

    @Test("a background push of priority 10 is refused")
    func backgroundPriority() {
        let bytes = job(["payload": ["aps": ["content-available": 1]], "priority": "immediate"])
        #expect(Self.faults(bytes).first?.hasPrefix("$.priority is 10, which APNs refuses") == true)
    }

    @Test("a payload may have 4096 bytes, 5120 for voip, and not one more")
    func payloadSize() throws {
        for (type, limit) in [("alert", 4096), ("voip", 5120)] {
            let frame = "{\"aps\":{\"alert\":\"\"}}".utf8.count
            func sized(_ bytes: Int) -> [UInt8] {
                let text = String(repeating: "x", count: bytes - frame)
                return job([
                    "push_type": .string(type), "payload": ["aps": ["alert": .string(text)]],
                ])
            }
            #expect(try Job.parse(sized(limit), now: now).payload.count == limit)
            #expect(Self.faults(sized(limit + 1)).first?.contains("1 more than APNs takes") == true)
        }
    }

    @Test("text that is no job is one fault at the root")
    func noJob() {
        for text in ["", "{", "[]", "7", "nul"] {
            let faults = Self.faults(Array(text.utf8))
            #expect(faults.count == 1)
            #expect(faults.first?.hasPrefix("$ is ") == true)
        }
    }

    @Test("the same job in another order and spacing has the same digest")
    func digest() throws {
        let one = try Job.parse(job(["ttl": 60]), now: now)
        let spaced = try JSONValue.parse(job(["ttl": 60])).pretty()
        let two = try Job.parse(Array(spaced.utf8), now: now)
        let three = try Job.parse(job(["ttl": 61]), now: now)
        #expect(one.digest == two.digest)
        #expect(one.digest != three.digest)
        #expect(one.digest.count == 64)
    }

    @Test("damaged jobs are refused or read, never fatal")
    func damaged() {
        let bytes = job(["retry": ["max_tries": 3], "deadline": 1_796_000_060, "priority": 5])
        for index in bytes.indices {
            for byte: UInt8 in [0, 0x22, 0x2D, 0x5B, 0x7B, 0x39, 0xFF] {
                var copy = bytes
                copy[index] = byte
                _ = Self.faults(copy)
                _ = Self.faults(Array(bytes[..<index]))
            }
        }
    }
}
