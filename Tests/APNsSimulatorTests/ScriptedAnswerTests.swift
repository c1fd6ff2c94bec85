import APNsSimulator
import Base
import Foundation
import JSON
import Testing

/// Answers as curl sees them.
@Suite("Simulator: scripted answers", .timeLimit(.minutes(1)))
struct ScriptedAnswerTests {
    /// A simulator whose rules answer each token `00`, `01` and so on with one of `answers`.
    private func fixture(
        _ answers: [String], settings: String = "{}"
    ) throws -> SimulatorFixture {
        let rules = answers.enumerated().map { index, answer in
            #"{"when":{"token":"\#(index / 10)\#(index % 10)"},"do":{"answer":\#(answer)}}"#
        }
        return try scripted(
            #"{"rules":[\#(rules.joined(separator: ","))],"settings":\#(settings)}"#)
    }

    private func scripted(_ text: String) throws -> SimulatorFixture {
        let script = try Script.read(Array(text.utf8))
        return try SimulatorFixture { $0.script = script }
    }

    private func responses(
        _ fixture: SimulatorFixture, _ count: Int
    ) throws
        -> [SimulatorFixture.Response]
    {
        try fixture.push(
            (0..<count).map { "\($0 / 10)\($0 % 10)" }, fields: fixture.fields())
    }

    @Test("any status and reason: other spellings, unknown ones, ExpiredToken under 400")
    func reasons() throws {
        let pairs = [
            (403, "BadEnvironmentKeyIdInToken"), (403, "BadEnvironmentKeyInToken"),
            (503, "ServiceUnavailable"), (503, "Service Unavailable"), (400, "ExpiredToken"),
            (400, "NeverHeardOf"), (500, "InternalServerError"), (429, "TooManyRequests"),
        ]
        let fixture = try fixture(
            pairs.map { #"{"status":\#($0.0),"reason":"\#($0.1)"}"# } + [#"{"status":200}"#])
        let responses = try responses(fixture, pairs.count + 2)
        for (response, pair) in zip(responses, pairs) {
            #expect(response.status == pair.0)
            #expect(response.body == #"{"reason":"\#(pair.1)"}"#)
            #expect(response.fields["content-type"] == "application/json")
            #expect(response.fields["apns-id"] != nil)
        }
        #expect(responses.dropFirst(pairs.count).map(\.status) == [200, 200])
        let counts = fixture.simulator.counts
        #expect(counts.faults == [.serviceUnavailable: 1, .tooManyRequests: 1])
        #expect(counts.others["400 ExpiredToken"] == 1 && counts.others.count == 6)
        #expect(counts.accepted == 2)
    }

    @Test("bodies: empty, no JSON, a megabyte, cut into frames")
    func bodies() throws {
        let fixture = try fixture([
            #"{"status":500}"#, #"{"status":502,"text":"<h1>Bad</h1>"}"#,
            #"{"status":400,"reason":"BadTopic","size":1048576}"#,
            #"{"status":400,"text":"no","size":7}"#,
            #"{"status":400,"reason":"BadTopic","frames":9}"#,
        ])
        let responses = try responses(fixture, 5)
        try #require(responses.count == 5)
        #expect(responses[0].body.isEmpty && responses[0].fields["content-type"] == nil)
        #expect(responses[1].body == "<h1>Bad</h1>")
        #expect(responses[1].fields["content-type"] == "text/plain")
        #expect(responses[2].body.utf8.count == 1 << 20)
        #expect(responses[2].body.hasSuffix(#","reason":"BadTopic"}"#))
        #expect(responses[3].body == "nononon")
        #expect(responses[4].body == #"{"reason":"BadTopic"}"#)
    }

    @Test("the time of a 410 in each unit, form and place")
    func timestamps() throws {
        let fixture = try fixture([
            #"{"status":410,"reason":"Unregistered"}"#,
            #"{"status":410,"timestamp":{"unit":"seconds","form":"string","ago_seconds":60}}"#,
            #"{"status":410,"timestamp":{"place":"body"}}"#,
            #"{"status":410,"timestamp":{"place":"header","unit":"seconds"}}"#,
            #"{"status":410,"reason":"Unregistered","timestamp":{"place":"none"}}"#,
            #"{"status":400,"reason":"ExpiredToken","timestamp":{}}"#,
        ])
        let now = WallClock.milliseconds()
        let responses = try responses(fixture, 6)
        try #require(responses.count == 6)
        let header = responses.map { $0.fields["apns-unless-timestamp"].flatMap { Int64($0) } }
        let body = try responses.map {
            $0.body.isEmpty ? nil : try JSONValue.parse($0.body)["timestamp"]
        }
        func near(_ value: Int64?, _ expected: Int64, _ unit: Int64 = 1) -> Bool {
            value.map { abs($0 * unit - expected) < 20_000 } ?? false
        }
        #expect(near(header[0], now - 3_600_000) && body[0]?.integer == header[0])
        #expect(near(header[1], now - 60_000, 1000))
        #expect(body[1]?.string == header[1].map(String.init))
        #expect(header[2] == nil && near(body[2]?.integer, now - 3_600_000))
        #expect(near(header[3], now - 3_600_000, 1000) && body[3] == nil)
        #expect(header[4] == nil && body[4] == nil)
        #expect(near(body[5]?.integer, now - 3_600_000) && responses[5].status == 400)
    }

    @Test("apns-id, Retry-After and date as told")
    func fields() throws {
        let fixture = try fixture(
            [
                #"{"status":400,"apns_id":"none"}"#, #"{"status":400,"apns_id":"other"}"#,
                #"{"status":429,"retry_after":7}"#,
                #"{"status":503,"retry_after_date":90,"date_skew_seconds":-7200}"#,
            ], settings: #"{"date_skew_seconds":3600}"#)
        let id = "eabeae54-14a8-11e5-b60b-1697f925ec7b"
        let now = WallClock.milliseconds()
        let responses = try fixture.push(
            ["00", "01", "02", "03", "04"], fields: fixture.fields(["apns-id": id]))
        try #require(responses.count == 5)
        #expect(responses[0].fields["apns-id"] == nil)
        #expect(responses[1].fields["apns-id"].map { $0 != id } == true)
        #expect(responses[2].fields["apns-id"] == id)
        #expect(responses[2].fields["retry-after"] == "7")
        func isNear(_ text: String?, _ skew: Int64) -> Bool {
            (0..<20).contains {
                text == WallClock.httpDate(milliseconds: now + (skew + $0) * 1000)
            }
        }
        #expect(isNear(responses[3].fields["retry-after"], 90))
        #expect(isNear(responses[3].fields["date"], -7200))
        #expect(isNear(responses[4].fields["date"], 3600))
        #expect(responses[4].status == 200)
    }

    @Test("without the setting a 410 has its time only in the body")
    func noHeader() throws {
        let script = try Script.read(
            Array(#"{"settings":{"emit_unless_timestamp_header":false}}"#.utf8))
        let fixture = try SimulatorFixture {
            $0.script = script
            $0.population.gone = 1
        }
        let response = try fixture.push()
        #expect(response.status == 410 && response.body.contains("timestamp"))
        #expect(response.fields["apns-unless-timestamp"] == nil)
    }

    @Test("delays: of one answer, of a judged one, and of all")
    func delays() throws {
        let fixture = try scripted(
            #"""
            {"rules":[
              {"when":{"token":"00"},"do":{"answer":{"status":400,"delay_ms":200}}},
              {"when":{"token":"01"},"do":{"delay":{"ms":200}}}],
             "settings":{"latency":{"median_ms":40}}}
            """#)
        for (token, least, status) in [("00", 220, 400), ("01", 220, 200), ("02", 20, 200)] {
            let start = Instant.now()
            #expect(try fixture.push(token).status == status)
            #expect(Instant.now() - start >= Nanoseconds.milliseconds(least))
        }
    }

    @Test("rates of a script: on a connection and for a token")
    func rates() throws {
        let fixture = try scripted(
            #"""
            {"settings":{"rate_per_connection":20,"rate_per_token":{"requests":2,"seconds":60}}}
            """#)
        let same = try fixture.push(["aa", "aa", "aa", "bb"], fields: fixture.fields())
        #expect(same.map(\.status) == [200, 200, 429, 200])
        #expect(same[2].body == #"{"reason":"TooManyRequests"}"#)
        let many = try fixture.push(
            (0..<80).map { "\(1000 + $0)" }, fields: fixture.fields())
        #expect(many.contains { $0.status == 429 })
    }

    @Test("age and update rule of provider tokens are the script's")
    func providerTokens() throws {
        let fixture = try scripted(
            #"{"settings":{"jwt_max_age_seconds":100,"jwt_update_rule":false}}"#)
        let old = try fixture.push(
            "00", ["authorization": "bearer \(fixture.jwt(secondsAgo: 200))"])
        #expect(old.body == #"{"reason":"ExpiredProviderToken"}"#)
        #expect(try fixture.push().status == 200)
    }

    @Test("a client without ALPN is served where the script says so")
    func alpn() throws {
        for isRequired in [true, false] {
            let fixture = try scripted(#"{"settings":{"require_alpn":\#(isRequired)}}"#)
            let curl = Process()
            curl.executableURL = URL(fileURLWithPath: "/usr/bin/curl")
            curl.arguments = [
                "--silent", "--no-alpn", "--http2-prior-knowledge", "--max-time", "10",
                "--cacert", fixture.files.authority, "--output", "/dev/null",
                "https://localhost:\(fixture.simulator.port)/3/device/00",
            ]
            try curl.run()
            curl.waitUntilExit()
            let counts = fixture.simulator.counts
            #expect(counts.failedHandshakes == (isRequired ? 1 : 0))
            #expect(counts.connections == (isRequired ? 0 : 1))
        }
    }
}
