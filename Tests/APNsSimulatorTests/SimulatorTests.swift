import APNsSimulator
import Base
import Foundation
import Testing

@Suite("Simulator: a server over TLS and HTTP/2", .timeLimit(.minutes(1)))
struct SimulatorTests {
    @Test("a good push gets 200 and its apns-id back, or a new one in upper case")
    func accepted() throws {
        let fixture = try SimulatorFixture()
        let id = "eabeae54-14a8-11e5-b60b-1697f925ec7b"
        let echoed = try fixture.push("00aa", ["apns-id": id])
        #expect(echoed.status == 200)
        #expect(echoed.fields["apns-id"] == id)
        #expect(echoed.body.isEmpty)
        let generated = try #require(try fixture.push("00aa").fields["apns-id"])
        #expect(generated.count == 36 && generated == generated.uppercased())
        #expect(fixture.simulator.counts.accepted == 2)
    }

    @Test("each fault of a request has Apple's status and reason as JSON")
    func faults() throws {
        let fixture = try SimulatorFixture()
        let cases: [([String: String?], Int, String)] = [
            (["apns-topic": nil], 400, "MissingTopic"),
            (["apns-topic": "com.example.other"], 400, "TopicDisallowed"),
            (["apns-push-type": "loud"], 400, "InvalidPushType"),
            (["apns-push-type": "background"], 400, "BadPriority"),
            (["apns-expiration": "soon"], 400, "BadExpirationDate"),
            (["apns-id": "7"], 400, "BadMessageId"),
            (
                ["apns-collapse-id": String(repeating: "x", count: 65)], 400,
                "BadCollapseId"
            ),
            (["authorization": nil], 403, "MissingProviderToken"),
            (["authorization": "bearer a.b.c"], 403, "InvalidProviderToken"),
            (
                ["authorization": "bearer \(fixture.jwt(secondsAgo: 3700))"], 403,
                "ExpiredProviderToken"
            ),
        ]
        for (changes, status, reason) in cases {
            let response = try fixture.push("00aa", changes)
            #expect(response.status == status)
            #expect(response.body == #"{"reason":"\#(reason)"}"#)
            #expect(response.fields["content-type"] == "application/json")
            #expect(response.fields["apns-id"] != nil)
        }
        let large = try fixture.push(
            body: #"{"text":""# + String(repeating: "x", count: 100_000) + #""}"#)
        #expect(large.status == 413)
        #expect(large.body == #"{"reason":"PayloadTooLarge"}"#)
        #expect(try fixture.push(body: "").body == #"{"reason":"PayloadEmpty"}"#)
        #expect(try fixture.push("00a").body == #"{"reason":"BadDeviceToken"}"#)
        #expect(try fixture.push("").body == #"{"reason":"MissingDeviceToken"}"#)
        let path = try fixture.push([""], fields: fixture.fields(), path: "/4/device/")
        #expect(path.map(\.status) == [404])
        let method = try fixture.push(["00aa"], fields: fixture.fields(), method: "PUT")
        #expect(method.map(\.status) == [405])
        let twice = try fixture.push(
            ["00aa"], fields: fixture.fields() + ["apns-topic: com.example.app"])
        #expect(twice.map(\.body) == [#"{"reason":"DuplicateHeaders"}"#])
    }

    @Test("a gone token gets 410 with the time in the body and in the header")
    func gone() throws {
        let fixture = try SimulatorFixture { $0.population.gone = 1 }
        let response = try fixture.push()
        #expect(response.status == 410)
        let time = try #require(response.fields["apns-unless-timestamp"].flatMap { Int64($0) })
        #expect(time < WallClock.milliseconds() && time > WallClock.milliseconds() - 2_592_100_000)
        #expect(response.body.contains(#""timestamp":\#(time)"#))
        let again = try fixture.push()
        #expect(again.body == response.body)
    }

    @Test("a transient token fails one to three times and is then accepted")
    func transient() throws {
        let fixture = try SimulatorFixture { $0.population.tooMany = 1 }
        let responses = try fixture.push(
            Array(repeating: "00aa", count: 5), fields: fixture.fields())
        let statuses = responses.map(\.status)
        let failures = statuses.prefix { $0 == 429 }.count
        #expect((1...3).contains(failures))
        #expect(statuses.dropFirst(failures).allSatisfy { $0 == 200 } && statuses.count == 5)
        #expect(responses.first?.body == #"{"reason":"TooManyRequests"}"#)
    }

    @Test("beyond the rate on a connection the answer is 429")
    func rate() throws {
        let fixture = try SimulatorFixture { $0.rateLimit = 10 }
        // A debug build in a loaded machine may be late itself, which the rule allows for.
        let tokens = (0..<60).map { Hex.encode([0, UInt8($0)]) }
        let statuses = try fixture.push(tokens, fields: fixture.fields()).map(\.status)
        #expect(statuses.prefix(11).allSatisfy { $0 == 200 })
        #expect(statuses.contains(429))
    }

    @Test("answers wait for the latency, many at a time")
    func latency() throws {
        let fixture = try SimulatorFixture { $0.latency = Nanoseconds.milliseconds(50) }
        let start = Instant.now()
        #expect(
            try fixture.push(["00", "01"], fields: fixture.fields()).map(\.status) == [200, 200])
        #expect(Instant.now() - start >= Nanoseconds.milliseconds(100))
    }

    @Test("the record has one line of seven fields for each request")
    func record() throws {
        let fixture = try SimulatorFixture()
        let id = "eabeae54-14a8-11e5-b60b-1697f925ec7b"
        let before = Double(WallClock.milliseconds())
        _ = try fixture.push(["00aa", "0bb"], fields: fixture.fields(["apns-id": id]))
        _ = try fixture.push("cc")
        let lines = try fixture.record()
        try #require(lines.count == 3 && lines.allSatisfy { $0.count == 7 })
        #expect(lines.map { $0[1] } == ["1", "1", "2"])
        #expect(lines.map { $0[3] } == ["00aa", "0bb", "cc"])
        #expect(lines.map { $0[5] } == ["200", "400", "200"])
        #expect(lines.map { $0[6] } == ["accepted", "refused", "accepted"])
        #expect(lines[0][4] == id)
        #expect(Set(lines.map { $0[1] + "/" + $0[2] }).count == 3)
        let times = lines.compactMap { Double($0[0]) }
        #expect(times == times.sorted() && times.count == 3)
        #expect(times.allSatisfy { $0 >= before - 5 && $0 <= Double(WallClock.milliseconds()) + 5 })
    }

    @Test("fast mode answers 200 to anything")
    func fast() throws {
        let fixture = try SimulatorFixture {
            $0.mode = .fast
            $0.record = nil
            $0.loops = 2
        }
        let responses = try fixture.push(["x", "y"], fields: [], method: "GET", path: "/any/")
        #expect(responses.map(\.status) == [200, 200])
        #expect(fixture.simulator.counts.requests == 2)
    }

    @Test("a client without HTTP/2 is refused and the next one served")
    func otherProtocol() throws {
        let fixture = try SimulatorFixture()
        let curl = Process()
        curl.executableURL = URL(fileURLWithPath: "/usr/bin/curl")
        curl.arguments = [
            "--silent", "--http1.1", "--cacert", fixture.files.authority,
            "https://localhost:\(fixture.simulator.port)/",
        ]
        try curl.run()
        curl.waitUntilExit()
        #expect(curl.terminationStatus != 0)
        #expect(try fixture.push().status == 200)
        #expect(fixture.simulator.counts.failedHandshakes == 1)
    }
}
