import APNs
import APNsClient
import APNsSimulator
import Base
import HTTP2
import Testing

/// Each fault that a server or a network can show, over real TLS and HTTP/2 on loopback.
@Suite("Faults of connections", .serialized, .timeLimit(.minutes(1)))
struct FaultTests {
    @Test("the first request of a connection goes alone until it is answered")
    func opener() throws {
        try withServer(script: { _, request, _ in
            request == 0 ? [.answerLater(milliseconds: 100)] : [.answer(200)]
        }) { sender, server in
            sender.send(20)
            #expect(sender.waitForAll(20))
            let arrivals = server.arrivals
            #expect(arrivals.count == 20)
            let wait = arrivals[1].at - arrivals[0].at
            #expect(wait >= Nanoseconds.milliseconds(100))
        }
    }

    @Test("a lower limit in the middle of a run is obeyed")
    func lowerLimit() throws {
        try withServer(script: { _, request, _ in
            switch request {
            case 0: [.answer(200)]
            case 100: [.limit(3), .answerLater(milliseconds: 10)]
            default: [.answerLater(milliseconds: 10)]
            }
        }) { sender, server in
            sender.send(300)
            #expect(sender.waitForAll(300))
            #expect(sender.results.outcomes.values.allSatisfy { $0 == [.accepted] })
            let later = server.arrivals.drop { $0.limit != 3 }
            #expect(later.count > 100)
            // Those that were open when the limit changed may still end.
            #expect(later.drop { $0.open > 3 }.allSatisfy { $0.open <= 3 })
            #expect(server.connections == 1)
        }
    }

    @Test("a refused stream was not processed and is sent again")
    func refusedStream() throws {
        try withServer(
            resends: true,
            script: { _, request, _ in
                request > 0 && request % 3 == 0
                    ? [.reset(HTTP2ErrorCode.refusedStream)] : [.answer(200)]
            }
        ) { sender, _ in
            sender.send(60)
            #expect(sender.waitForAll(60))
            let outcomes = sender.results.outcomes
            #expect(outcomes.values.allSatisfy { $0.last == .accepted })
            #expect(outcomes.values.contains { $0.first == .notProcessed })
            #expect(
                outcomes.values.allSatisfy {
                    $0.dropLast().allSatisfy { $0 == .notProcessed }
                })
        }
    }

    @Test("a stream reset with another code is unknown")
    func otherReset() throws {
        try withServer(script: { _, request, _ in
            request == 1 ? [.reset(HTTP2ErrorCode.internalError)] : [.answer(200)]
        }) { sender, _ in
            sender.send(3)
            #expect(sender.waitForAll(3))
            #expect(sender.results.outcomes[1] == [.unknown("StreamReset2")])
            #expect(sender.results.outcomes[2] == [.accepted])
        }
    }

    @Test("GOAWAY: above the last stream not processed, below it answered, and a replacement opens")
    func goAway() throws {
        try withServer(
            resends: true,
            script: { connection, request, _ in
                guard connection == 1, request > 0 else { return [.answer(200)] }
                // Requests have the streams 1, 3, 5 and so on: the last one is request 5.
                return request == 10
                    ? [.goAway(last: 11), .answerAll] : [.answerLater(milliseconds: 5000)]
            }
        ) { sender, server in
            sender.send(40)
            #expect(sender.waitForAll(40))
            let outcomes = sender.results.outcomes
            #expect(outcomes.values.allSatisfy { $0.last == .accepted })
            for tag in 0...5 as ClosedRange<UInt64> { #expect(outcomes[tag] == [.accepted]) }
            for tag in 6...10 as ClosedRange<UInt64> {
                #expect(outcomes[tag] == [.notProcessed, .accepted])
            }
            #expect(server.connections == 2)
            // The replacement began before anything was sent twice.
            #expect(server.arrivals.count { $0.connection == 2 } >= 34)
        }
    }

    @Test("an abrupt end makes unknown what was sent and not answered, each once")
    func hangUp() throws {
        try withServer(script: { connection, request, _ in
            guard connection == 1, request > 0 else { return [.answer(200)] }
            return request == 8 ? [.hangUp] : []
        }) { sender, server in
            sender.send(30)
            #expect(sender.waitForAll(30))
            let outcomes = sender.results.outcomes
            #expect(outcomes.values.allSatisfy { $0.count == 1 })
            #expect(outcomes[0] == [.accepted])
            for tag in 1...8 as ClosedRange<UInt64> {
                #expect(outcomes[tag] == [.unknown("ConnectionLost")])
            }
            let accepted = outcomes.values.count { $0 == [.accepted] }
            #expect(accepted >= 10, "the replacement sends the rest")
            #expect(server.connections == 2)
        }
    }

    @Test("a request that is never answered is unknown after its deadline, and the rest goes on")
    func deadline() throws {
        try withServer(
            settings: { $0.requestTimeout = Nanoseconds.milliseconds(300) },
            script: { _, request, _ in request == 2 ? [] : [.answer(200)] }
        ) { sender, server in
            sender.send(10)
            #expect(sender.waitForAll(10))
            let results = sender.results
            #expect(results.outcomes[2] == [.unknown("Timeout")])
            #expect(results.outcomes.values.count { $0 == [.accepted] } == 9)
            let longest = try #require(results.latencies.max())
            #expect(longest >= Nanoseconds.milliseconds(300))
            #expect(longest < Nanoseconds.milliseconds(2000))
            #expect(server.connections == 1)
        }
    }

    @Test("the deadline holds when the server is silent altogether")
    func silentServer() throws {
        try withServer(
            settings: { $0.requestTimeout = Nanoseconds.milliseconds(200) },
            script: { _, request, _ in request == 1 ? [.freeze] : [.answer(200)] }
        ) { sender, _ in
            sender.send(4)
            #expect(sender.waitForAll(4, seconds: 5))
            #expect(sender.results.outcomes[1] == [.unknown("Timeout")])
        }
    }

    @Test("a connection that does not answer a PING is dead, and what it held is unknown")
    func deadConnection() throws {
        try withServer(
            settings: {
                $0.busyPing = Nanoseconds.milliseconds(100)
                $0.pingTimeout = Nanoseconds.milliseconds(100)
            },
            script: { connection, request, _ in
                connection == 1 && request == 3 ? [.freeze] : [.answer(200)]
            }
        ) { sender, server in
            sender.send(20)
            #expect(sender.waitForAll(20))
            #expect(sender.results.outcomes[3] == [.unknown("PingUnanswered")])
            #expect(waitUntil { server.connections == 2 })
        }
    }

    @Test("a refused certificate is told in one sentence, and nothing is sent")
    func wrongCertificate() throws {
        let files = try #require(Certificates.files)
        let strangers = try #require(Certificates.strangers)
        let server = try FaultServer(files: (files.certificate, files.key)) { _, _, _ in [] }
        let sender = try Sender(port: server.port, trust: strangers.authority)
        defer {
            sender.stop()
            server.stop()
        }
        sender.send(5)
        #expect(waitUntil { sender.status?.lastFailure != nil })
        let failure = try #require(sender.status?.lastFailure)
        #expect(failure.contains("the server's certificate is refused"))
        #expect(server.arrivals.isEmpty)
        #expect(sender.results.sentAt.isEmpty)
    }
}
