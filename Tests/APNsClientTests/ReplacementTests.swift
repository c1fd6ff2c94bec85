import APNs
import APNsClient
import APNsSimulator
import Base
import Testing

/// What a connection does about answers and advice, over real TLS and HTTP/2 on loopback.
@Suite("Replacing connections", .serialized, .timeLimit(.minutes(1)))
struct ReplacementTests {
    @Test("an answer that asks for another connection is reported once, and that one opens")
    func shutdown() throws {
        try withServer(script: { connection, _, _ in
            connection == 1 ? [.answer(503, #"{"reason":"Shutdown"}"#)] : [.answer(200)]
        }) { sender, server in
            sender.send(2)
            #expect(sender.waitForAll(2))
            #expect(sender.results.outcomes[0] == [.answered("Shutdown")])
            #expect(sender.results.outcomes[1] == [.accepted])
            #expect(server.connections == 2)
        }
    }

    @Test("an expired provider token: the connection is replaced, the credential is told")
    func expiredToken() throws {
        try withServer(
            credential: try Certificates.credential(),
            script: { connection, _, _ in
                connection == 1
                    ? [.answer(403, #"{"reason":"ExpiredProviderToken"}"#)] : [.answer(200)]
            }
        ) { sender, server in
            sender.send(2)
            #expect(sender.waitForAll(2))
            #expect(sender.results.outcomes[0] == [.answered("ExpiredProviderToken")])
            #expect(sender.results.outcomes[1] == [.accepted])
            let token = try #require(sender.results.refusedTokens.first)
            #expect(server.arrivals[0].authorization == "bearer \(token)")
            #expect(sender.results.holds == 0)
        }
    }

    @Test("too many provider tokens: none is signed for a while")
    func tooManyTokens() throws {
        try withServer(
            credential: try Certificates.credential(),
            script: { connection, _, _ in
                connection == 1
                    ? [.answer(429, #"{"reason":"TooManyProviderTokenUpdates"}"#)] : [.answer(200)]
            }
        ) { sender, _ in
            sender.send(2)
            #expect(sender.waitForAll(2))
            #expect(sender.results.holds == 1)
            #expect(sender.results.refusedTokens.isEmpty)
        }
    }

    @Test("GOAWAY for the sake of the credential is no circle of reconnects")
    func credentialGoAway() throws {
        try withServer(script: { _, _, _ in
            [.goAway(last: 0, debug: #"{"reason":"BadCertificateEnvironment"}"#)]
        }) { sender, server in
            sender.send(3)
            #expect(sender.waitForAll(3))
            #expect(sender.results.outcomes.values.allSatisfy { $0 == [.notProcessed] })
            let arrivals = server.arrivals
            try #require(arrivals.count == 3)
            // The pause after the second failure is at least a tenth of 2 s, beside the one second
            // between two connections.
            #expect(arrivals[2].at - arrivals[1].at >= Nanoseconds.milliseconds(200))
        }
    }

    @Test("a connection that only answers 500 is replaced while another one is well")
    func serverErrors() throws {
        try withServer(
            settings: { $0.connections = 2 },
            script: { connection, _, _ in connection == 1 ? [.answer(500)] : [.answer(200)] }
        ) { sender, server in
            sender.send(400)
            #expect(sender.waitForAll(400))
            #expect(server.connections == 3)
            let errors = sender.results.outcomes.values.count { $0 == [.answered("Status500")] }
            #expect((3..<150).contains(errors))
        }
    }

    @Test("an old connection is replaced without losing anything")
    func rotation() throws {
        try withServer(
            settings: { $0.maximumAge = Nanoseconds.milliseconds(300) },
            script: { _, _, _ in [.answerLater(milliseconds: 20)] }
        ) { sender, server in
            sender.send(900)
            #expect(sender.waitForAll(900))
            #expect(sender.results.outcomes.values.allSatisfy { $0 == [.accepted] })
            #expect(server.connections >= 2)
        }
    }

    @Test("a stopped pool sends nothing more, and what is under way is still answered")
    func stopping() throws {
        try withServer(script: { _, request, _ in
            request == 0 ? [.answer(200)] : [.answerLater(milliseconds: 200)]
        }) { sender, server in
            sender.send(100_000)
            #expect(waitUntil { server.arrivals.count > 20 })
            sender.onLoop { $0.stop() }
            #expect(waitUntil { sender.status?.inFlight == 0 })
            let results = sender.results
            #expect(results.outcomes.count == results.sentAt.count)
            #expect(results.outcomes.values.allSatisfy { $0 == [.accepted] })
            #expect(waitUntil { sender.status?.drainingConnections == 0 })
            #expect(sender.results.sentAt.count == results.sentAt.count)
        }
    }
}
