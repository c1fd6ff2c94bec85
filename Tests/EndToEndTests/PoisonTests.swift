import Redis
import TestKit
import Testing

@Suite("A recipient that ends workers")
struct PoisonTests {
    /// Starts workers until the campaign has ended; how many of them died.
    private func supervise(
        _ fleet: Fleet, _ campaign: String, poison: String, within limit: Duration
    ) async throws -> Int {
        let options = ["--connections", "2", "--rate", "600"]
        let environment = ["PEAL_FAIL_POINT": "recipient:\(poison)"]
        var worker = try fleet.worker(options, environment: environment)
        var deaths = 0
        try await eventually("the campaign ends", within: limit) {
            if worker.end != nil {
                deaths += 1
                worker = try fleet.worker(options, environment: environment)
            }
            return try fleet.state(campaign) == "completed"
        }
        worker.send(15)
        #expect(try await worker.wait() == .exit(0))
        return deaths
    }

    @Test("is isolated under resend: alone at last it is rejected, all others are delivered")
    func resend() async throws {
        let fleet = try await Fleet(simulator: ["--latency", "10ms"])
        try fleet.enqueue("poison", 4000)
        // A second campaign shares every death: none of its recipients may come under suspicion
        // for good.
        try fleet.enqueue("other", 40_000)
        let token = Fleet.token("poison", 1234)
        let deaths = try await supervise(
            fleet, "poison", poison: token, within: .seconds(240))
        #expect(deaths == 5)
        let counters = try fleet.counters("poison")
        #expect(counters["accepted"] == 3999)
        #expect(counters["rejected"] == 1)
        #expect(counters["reason:Poison"] == 1)
        let last = try fleet.worker(["--once"])
        #expect(try await last.wait(within: .seconds(90)) == .exit(0))
        #expect(try fleet.counters("other")["accepted"] == 40_000)
        #expect(try await fleet.peal(["audit"]).end == .exit(0))
        let record = try await fleet.finalRecord()
        #expect(!record.tokens(200).contains(token))
        #expect(record.tokens(200).count == 43_999)
    }

    @Test("ends as unknown under skip, with those that were in flight beside it")
    func skip() async throws {
        let fleet = try await Fleet(simulator: ["--latency", "10ms"])
        try fleet.enqueue("poison", 4000, #""on_unknown": "skip""#)
        let token = Fleet.token("poison", 1234)
        let deaths = try await supervise(fleet, "poison", poison: token, within: .seconds(90))
        #expect(deaths == 1)
        let counters = try fleet.counters("poison")
        #expect(counters["unknown"] ?? 0 > 0)
        #expect((counters["unknown"] ?? 0) + (counters["accepted"] ?? 0) == 4000)
        let record = try await fleet.finalRecord()
        #expect(record.doubles == 0)
        #expect(!record.tokens(200).contains(token))
    }
}
