import APNsClient
import APNsSimulator
import Base
import TestKit
import Testing

/// The deeds of a script on connections and streams, as our own sender meets them.
@Suite("Scripted faults", .serialized, .timeLimit(.minutes(1)))
struct TheatreTests {
    /// Sends `count` pushes to a simulator with a script, and gives the lines of its record.
    @discardableResult
    private func play(
        _ text: String, count: Int, resends: Bool = false, loops: Int = 1,
        settings: (inout PoolSettings) -> Void = { _ in },
        _ body: (Sender, Simulator) throws -> Void
    ) throws -> [[String]] {
        let files = try #require(Certificates.files)
        let folder = try TemporaryDirectory()
        var configuration = SimulatorConfiguration(certificate: files.certificate, key: files.key)
        try configuration.providerTokens.usePublicKey(file: files.providerPublicKey)
        configuration.script = try Script.read(Array(text.utf8))
        configuration.record = folder.path + "/record"
        let simulator = try Simulator(configuration: configuration)
        simulator.start()
        let sender = try Sender(
            port: simulator.port, trust: files.authority, credential: Certificates.credential(),
            resends: resends, settings)
        defer {
            sender.stop()
            simulator.stop()
        }
        sender.send(count)
        try body(sender, simulator)
        sender.stop()
        simulator.stop()
        return String(decoding: try folder.bytes("record"), as: UTF8.self).split(separator: "\n")
            .map { $0.split(separator: " ").map(String.init) }
    }

    private func told(_ lines: [[String]], _ status: String, _ verdict: String) -> Int {
        lines.count { $0[5] == status && $0[6] == verdict }
    }

    @Test("silence: a timeout, whether or not the push was accepted", arguments: [true, false])
    func silence(processed: Bool) throws {
        let lines = try play(
            #"{"rules":[{"when":{"request":3},"do":{"silence":{"processed":\#(processed)}}}]}"#,
            count: 10, settings: { $0.requestTimeout = Nanoseconds.milliseconds(300) }
        ) { sender, simulator in
            #expect(sender.waitForAll(10))
            #expect(sender.results.outcomes[2] == [.unknown("Timeout")])
            #expect(simulator.counts.unanswered == 1)
        }
        #expect(told(lines, "0", processed ? "accepted" : "unprocessed") == 1)
        #expect(told(lines, "200", "accepted") == 9)
    }

    @Test("a burst of refused streams, reset twice, is sent again and nobody gets it twice")
    func refusedStreams() throws {
        let lines = try play(
            #"""
            {"rules":[{"when":{"request":{"from":2,"until":20}},
                       "do":{"reset":{"code":"REFUSED_STREAM","then":"STREAM_CLOSED"}}}]}
            """#, count: 60, resends: true
        ) { sender, simulator in
            #expect(sender.waitForAll(60))
            #expect(sender.results.outcomes.values.allSatisfy { $0.last == .accepted })
            #expect(simulator.counts.unprocessed == 19)
            #expect(simulator.counts.connections == 1)
        }
        #expect(told(lines, "0", "unprocessed") == 19 && told(lines, "200", "accepted") == 60)
    }

    @Test("another reset is unknown, and the record says whether it was accepted")
    func otherReset() throws {
        let lines = try play(
            #"""
            {"rules":[{"when":{"request":2},
                       "do":{"reset":{"code":"INTERNAL_ERROR","processed":true}}}]}
            """#, count: 3
        ) { sender, _ in
            #expect(sender.waitForAll(3))
            #expect(sender.results.outcomes[1] == [.unknown("StreamReset2")])
        }
        #expect(told(lines, "0", "accepted") == 1)
    }

    @Test(
        "GOAWAY in each form: what is above its last stream is sent again, nobody gets it twice",
        arguments: [
            #"{"last":"previous","reason":"Shutdown"}"#, #"{"last":"this","frames":2}"#,
            #"{"last":7,"code":"ENHANCE_YOUR_CALM","text":"calm down"}"#,
        ])
    func goAway(form: String) throws {
        let lines = try play(
            #"""
            {"rules":[{"when":{"connection":1,"request":10},"do":{"goaway":\#(form)}},
                      {"when":{"connection":1,"request":{"from":2}},"do":{"delay":{"ms":50}}}]}
            """#, count: 40, resends: true
        ) { sender, simulator in
            #expect(sender.waitForAll(40))
            let outcomes = sender.results.outcomes
            #expect(outcomes.values.allSatisfy { $0.last == .accepted })
            if form.contains("previous") {
                #expect(outcomes[9] == [.notProcessed, .accepted])
                #expect(outcomes[8] == [.accepted])
            }
            if form.contains("this") { #expect(outcomes[9] == [.accepted]) }
            if form.contains("7") { #expect(outcomes[4] == [.notProcessed, .accepted]) }
            #expect(simulator.counts.connections == 2)
        }
        #expect(told(lines, "200", "accepted") == 40 && told(lines, "0", "accepted") == 0)
    }

    @Test("an abrupt end before or after the push is accepted", arguments: [true, false])
    func close(processed: Bool) throws {
        let lines = try play(
            #"""
            {"rules":[{"when":{"connection":1,"request":8},
                       "do":{"close":{"processed":\#(processed),"tcp_reset":\#(processed)}}}]}
            """#, count: 30
        ) { sender, simulator in
            #expect(sender.waitForAll(30))
            #expect(sender.results.outcomes[7] == [.unknown("ConnectionLost")])
            #expect(simulator.counts.connections == 2)
        }
        #expect(told(lines, "0", processed ? "accepted" : "unprocessed") >= 1)
    }

    @Test("a frozen connection does not answer PINGs, and what it held is unknown")
    func freeze() throws {
        try play(
            #"{"rules":[{"when":{"connection":1,"request":4},"do":{"freeze":{}}}]}"#, count: 20,
            settings: {
                $0.busyPing = Nanoseconds.milliseconds(100)
                $0.pingTimeout = Nanoseconds.milliseconds(100)
            }
        ) { sender, simulator in
            #expect(sender.waitForAll(20))
            #expect(sender.results.outcomes[3] == [.unknown("PingUnanswered")])
            #expect(waitUntil { simulator.counts.connections == 2 })
        }
    }

    @Test("a limit of 1 for a while is obeyed, and all goes on after it")
    func limit() throws {
        try play(
            #"""
            {"rules":[{"when":{"request":50},"do":{"limit":{"streams":1,"back_after_ms":200}}}],
             "settings":{"latency":{"median_ms":10}}}
            """#, count: 300, resends: true
        ) { sender, simulator in
            #expect(sender.waitForAll(300))
            #expect(sender.results.outcomes.values.allSatisfy { $0.last == .accepted })
            #expect(simulator.counts.limitViolations == 0)
            #expect(simulator.counts.connections == 1)
        }
    }

    @Test("a starved window holds bodies back until the deadline")
    func window() throws {
        try play(
            #"{"settings":{"initial_window":10,"window_updates":false}}"#, count: 3,
            settings: { $0.requestTimeout = Nanoseconds.milliseconds(300) }
        ) { sender, simulator in
            // The first one may be sent before the server's SETTINGS are read.
            #expect(sender.waitForAll(2))
            #expect(sender.results.outcomes[1] == [.unknown("Timeout")])
            #expect(simulator.counts.requests <= 1)
        }
        try play(
            #"{"rules":[{"when":{"request":2},"do":{"window":{"size":10}}}]}"#, count: 200,
            settings: { $0.requestTimeout = Nanoseconds.milliseconds(300) }
        ) { sender, _ in
            #expect(
                waitUntil {
                    sender.results.outcomes.values.contains { $0 == [.unknown("Timeout")] }
                })
        }
    }

    @Test("the error score lowers the limit and then ends the connection")
    func errorScore() throws {
        try play(
            #"""
            {"rules":[{"when":{"connection":1,"request":{"from":2}},
                       "do":{"answer":{"status":400,"reason":"BadDeviceToken"}}}],
             "settings":{"error_score":{"limit_at":5,"goaway_at":20}}}
            """#, count: 40, resends: true
        ) { sender, simulator in
            #expect(sender.waitForAll(40))
            #expect(simulator.counts.connections == 2)
            #expect((4...10).contains(simulator.counts.faults[.badDeviceToken] ?? 0))
        }
    }
}
