import APNs
import Testing

@Suite("Reasons, verdicts and answers")
struct VerdictTests {
    @Test(
        "each answer means what the reaction table says",
        arguments: [
            (200, nil, Verdict.accepted, Reaction.ConnectionAdvice.keep, Reaction.Minting.keep),
            (400, "BadDeviceToken", .quarantine, .keep, .keep),
            (400, "DeviceTokenNotForTopic", .quarantine, .keep, .keep),
            (400, "MissingDeviceToken", .reject, .keep, .keep),
            (400, "BadTopic", .stop(.topic), .keep, .keep),
            (400, "BadPriority", .stop(.priority), .keep, .keep),
            (400, "IdleTimeout", .retry(.elsewhere), .drain, .keep),
            (400, "SomethingNew", .reject, .keep, .keep),
            (400, "ExpiredToken", .gone, .keep, .keep),
            (403, "ExpiredProviderToken", .providerToken(.expired), .close, .renew),
            (403, "InvalidProviderToken", .providerToken(.invalid), .close, .renew),
            (403, "UnrelatedKeyIdInToken", .retry(.elsewhere), .drain, .keep),
            (403, "BadEnvironmentKeyIdInToken", .stop(.keyEnvironment), .close, .keep),
            (403, "BadEnvironmentKeyInToken", .stop(.keyEnvironment), .close, .keep),
            (403, "Forbidden", .stop(.forbidden), .close, .keep),
            (403, nil, .stop(.credentialRefused), .close, .keep),
            (404, "BadPath", .stop(.request), .keep, .keep),
            (410, "Unregistered", .gone, .keep, .keep),
            (410, nil, .gone, .keep, .keep),
            (413, "PayloadTooLarge", .stop(.payloadTooLarge), .keep, .keep),
            (429, "TooManyRequests", .retry(.tooManyRequests), .keep, .keep),
            (429, "TooManyProviderTokenUpdates", .retry(.elsewhere), .close, .hold),
            (429, nil, .retry(.tooManyRequests), .keep, .keep),
            (500, "InternalServerError", .retry(.serverError), .keep, .keep),
            (503, "Service Unavailable", .retry(.serverError), .keep, .keep),
            (503, "Shutdown", .retry(.serverError), .drain, .keep),
            (502, nil, .retry(.serverError), .drain, .keep),
        ] as [(Int, String?, Verdict, Reaction.ConnectionAdvice, Reaction.Minting)])
    func table(
        status: Int, reason: String?, verdict: Verdict, connection: Reaction.ConnectionAdvice,
        minting: Reaction.Minting
    ) {
        let reaction = Reaction.of(status: status, reason: reason.map { Reason($0) })
        #expect(reaction.verdict == verdict)
        #expect(reaction.connection == connection)
        #expect(reaction.minting == minting)
    }

    @Test("no error reason counts as accepted, only 410 is gone, and every 5xx is retried")
    func consistency() {
        for known in Reason.Known.allCases {
            let verdict = Verdict.of(status: known.usualStatus, reason: Reason(known))
            #expect(verdict != .accepted)
            if verdict == .gone { #expect(known.usualStatus == 410) }
            if known.usualStatus >= 500 { #expect(verdict == .retry(.serverError)) }
            #expect(Reason(known.rawValue).known == known)
        }
        for cause in StopCause.allCases { #expect(cause.advice.contains(". ")) }
    }

    @Test("an unknown reason is kept as it came, cut and printable")
    func unknownReason() {
        #expect(Reason("SomethingNew").text == "SomethingNew")
        #expect(Reason("a b\n").text == "a?b?")
        #expect(Reason(String(repeating: "x", count: 500)).text.utf8.count == 64)
        #expect(Reason("Service Unavailable") == Reason(.serviceUnavailable))
    }

    @Test(
        "the time of a 410 comes from the body, else the header, else the sending",
        arguments: [
            (#""timestamp":1796000000123"#, nil, 1_796_000_000_123, "body"),
            (#""timestamp":1796000000"#, nil, 1_796_000_000_000, "body"),
            (#""timestamp":"1796000000123""#, "5", 1_796_000_000_123, "body"),
            (#""other":1"#, "1796000000", 1_796_000_000_000, "header"),
            (#""timestamp":true"#, "soon", 1_796_000_100_000, "sent_at"),
            (#""timestamp":1796000000123456"#, nil, 1_796_000_100_000, "sent_at"),
            ("not JSON", nil, 1_796_000_100_000, "sent_at"),
        ] as [(String, String?, Int64, String)])
    func goneTime(member: String, header: String?, time: Int64, source: String) {
        let body = Array("{\"reason\":\"Unregistered\",\(member)}".utf8)
        let response = Response(
            status: 410, body: body, unlessTimestamp: header, sentAt: 1_796_000_100_000)
        #expect(response.goneAt?.milliseconds == time)
        #expect(response.goneAt?.source.rawValue == source)
    }

    @Test("a body that is empty, huge or not JSON leaves the status to decide")
    func bodies() {
        let long = String(repeating: "a", count: 5000)
        let huge = Array("{\"reason\":\"BadTopic\",\"x\":\"\(long)\"}".utf8)
        for body in [[], huge, Array("oops".utf8), Array("{\"reason\":7}".utf8), Array("[]".utf8)] {
            let response = Response(status: 503, body: body, sentAt: 1)
            #expect(response.reason == nil)
            #expect(response.label == "Status503")
            #expect(response.verdict == .retry(.serverError))
            #expect(response.goneAt == nil)
        }
    }

    @Test("retry-after is read as seconds or as an HTTP date, up to an hour")
    func retryAfter() {
        #expect(RetryAfter.seconds("30", now: 0) == 30)
        #expect(RetryAfter.seconds("99999", now: 0) == 3600)
        #expect(RetryAfter.seconds("Sun, 06 Nov 1994 08:49:37 GMT", now: 784_111_770_500) == 7)
        #expect(RetryAfter.seconds("Sun, 06 Nov 1994 08:49:37 GMT", now: 884_111_770_500) == 0)
        #expect(RetryAfter.seconds("-1", now: 0) == nil)
        #expect(RetryAfter.seconds("soon", now: 0) == nil)
    }
}
