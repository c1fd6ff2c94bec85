import APNsClient
import APNsSimulator
import Base
import Testing

/// A pool against the simulator, which judges every request.
@Suite("Sending to the simulator", .serialized, .timeLimit(.minutes(1)))
struct SimulatorTests {
    private func simulator(
        _ change: (inout SimulatorConfiguration) throws -> Void = { _ in }
    ) throws -> Simulator {
        let files = try #require(Certificates.files)
        var configuration = SimulatorConfiguration(certificate: files.certificate, key: files.key)
        try configuration.providerTokens.usePublicKey(file: files.providerPublicKey)
        configuration.providerTokens.keyID = TestFiles.keyID
        configuration.providerTokens.teamID = TestFiles.teamID
        configuration.providerTokens.isStrict = true
        try change(&configuration)
        let simulator = try Simulator(configuration: configuration)
        simulator.start()
        return simulator
    }

    @Test("every push of a run over several connections is accepted by the strict judge")
    func strict() throws {
        let simulator = try simulator()
        let sender = try Sender(
            port: simulator.port, trust: #require(Certificates.files).authority,
            credential: Certificates.credential()
        ) {
            $0.connections = 3
        }
        defer { sender.stop() }
        sender.send(3000)
        #expect(sender.waitForAll(3000))
        #expect(sender.results.outcomes.values.allSatisfy { $0 == [.accepted] })
        #expect(sender.status?.openConnections == 3)
        #expect(sender.status?.requests == 3000)
        simulator.stop()
        #expect(simulator.counts.accepted == 3000)
        #expect(simulator.counts.faults.isEmpty)
        #expect(simulator.counts.connections == 3)
    }

    @Test("answers with delay and of every population are told apart")
    func populations() throws {
        let simulator = try simulator {
            $0.latency = Nanoseconds.milliseconds(30)
            $0.population.gone = 0.1
            $0.population.bad = 0.1
        }
        let sender = try Sender(
            port: simulator.port, trust: #require(Certificates.files).authority,
            credential: Certificates.credential())
        defer { sender.stop() }
        sender.send(500)
        #expect(sender.waitForAll(500))
        let outcomes = sender.results.outcomes.values.compactMap(\.first)
        let counts = simulator.counts
        #expect(outcomes.count { $0 == .accepted } == counts.accepted)
        for fault in [Fault.unregistered, .expiredToken, .badDeviceToken] {
            #expect(
                outcomes.count { $0 == .answered(fault.rawValue) }
                    == counts.faults[fault, default: 0])
        }
        #expect(counts.faults[.badDeviceToken, default: 0] > 20)
        simulator.stop()
    }

    @Test("without a limit everything goes as fast as the server answers")
    func unlimited() throws {
        let simulator = try simulator { $0.mode = .fast }
        let sender = try Sender(
            port: simulator.port, trust: #require(Certificates.files).authority
        ) {
            $0.ratePerConnection = nil
        }
        defer { sender.stop() }
        sender.send(20_000)
        #expect(sender.waitForAll(20_000))
        #expect(sender.results.outcomes.values.allSatisfy { $0 == [.accepted] })
        simulator.stop()
    }
}

/// The limit of requests in a second, by the record of the server.
@Suite("Pace on the wire", .serialized, .timeLimit(.minutes(1)))
struct PaceTests {
    @Test(
        "no window of a second holds more than the limit, and the mean is near it",
        arguments: [200, 1500])
    func windows(limit: Int) throws {
        let files = try #require(Certificates.files)
        let server = try FaultServer(files: (files.certificate, files.key), limit: 1000) {
            _, _, _ in
            [.answer(200)]
        }
        let sender = try Sender(port: server.port, trust: files.authority) {
            $0.ratePerConnection = limit
        }
        defer {
            sender.stop()
            server.stop()
        }
        let count = limit * 5 / 2
        sender.send(count)
        #expect(sender.waitForAll(count))
        let sent = sender.results.sentAt.map(\.nanoseconds)
        let arrived = server.arrivals.map(\.at.nanoseconds)
        try #require(arrived.count == sent.count)
        #expect(fullest(sent) <= limit)
        // The record may exceed the limit only by what was held up on its way.
        let delays = zip(arrived, sent).map { $0 - $1 }
        let spread = Double(try #require(delays.max()) - (try #require(delays.min()))) / 1e9
        #expect(Double(fullest(arrived)) <= Double(limit) * (1 + spread) + 1)
        let seconds = Double(try #require(sent.last) - sent[1]) / 1e9
        #expect(Double(count) / seconds >= Double(limit) * 0.75, "a loaded machine may be slower")
    }

    private func fullest(_ times: [Int64]) -> Int {
        var first = 0
        var most = 0
        for last in times.indices {
            while times[last] - times[first] >= 1_000_000_000 { first += 1 }
            most = max(most, last - first + 1)
        }
        return most
    }
}
