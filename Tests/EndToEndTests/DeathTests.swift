import JSON
import Redis
import TestKit
import Testing

@Suite("When a worker dies")
struct DeathTests {
    @Test("under resend nobody is lost and at most what was in flight is sent twice")
    func resend() async throws {
        let fleet = try await Fleet(simulator: ["--latency", "50ms"])
        try fleet.enqueue("again", 20_000)
        // Slow, so that it is surely at work when it dies.
        let victim = try fleet.worker(["--connections", "2", "--rate", "500"])
        try await eventually("it sends") { try fleet.counters("again")["accepted"] ?? 0 > 1000 }
        victim.send(9)
        try await victim.wait()
        let marked = try fleet.counters("again")["in_flight"] ?? 0
        #expect(marked > 0)
        let heir = try fleet.worker(["--once", "--connections", "2"])
        #expect(try await heir.wait(within: .seconds(90)) == .exit(0))
        #expect(try fleet.state("again") == "completed")
        let counters = try fleet.counters("again")
        let record = try await fleet.finalRecord()
        #expect(record.tokens(200).count == 20_000)
        #expect(counters["accepted"] == 20_000)
        #expect(record.doubles <= marked)
        #expect(try await fleet.peal(["audit"]).end == .exit(0))
    }

    @Test("under skip nobody is sent twice and those in doubt are counted as unknown")
    func skip() async throws {
        let fleet = try await Fleet(simulator: ["--latency", "50ms"])
        try fleet.enqueue("once", 20_000, #""on_unknown": "skip""#)
        // Slow, so that it is surely at work when it dies.
        let victim = try fleet.worker(["--connections", "2", "--rate", "500"])
        try await eventually("it sends") { try fleet.counters("once")["accepted"] ?? 0 > 1000 }
        victim.send(9)
        try await victim.wait()
        let marked = try fleet.counters("once")["in_flight"] ?? 0
        let heir = try fleet.worker(["--once", "--connections", "2"])
        #expect(try await heir.wait(within: .seconds(90)) == .exit(0))
        let counters = try fleet.counters("once")
        let record = try await fleet.finalRecord()
        #expect(record.doubles == 0)
        #expect(marked > 0)
        #expect(counters["unknown"] == marked)
        #expect((counters["accepted"] ?? 0) + marked == 20_000)
        // Each accepted recipient that is not counted as accepted is one of the unknown.
        #expect(record.tokens(200).count - (counters["accepted"] ?? 0) <= marked)
        let unknown = try await fleet.peal(["results", "once", "--outcome", "unknown"])
        #expect(unknown.end == .exit(0))
        let listed = try unknown.output.split(separator: "\n").map {
            try JSONValue.parse(Array($0.utf8))
        }
        #expect(listed.allSatisfy { $0["outcome"] == "unknown" && $0["reason"] == "WorkerLost" })
        let doubtful = Set(listed.compactMap { $0["token"]?.string })
        #expect(doubtful.count == marked)
        #expect(listed.count == marked)
        // Exactly those that the ledger has as unknown: nobody else, and all of them.
        let all = try await fleet.peal(["results", "once", "--format", "csv"])
        let accepted = all.output.split(separator: "\r\n").filter {
            $0.contains(",true,accepted,,")
        }
        #expect(accepted.count == 20_000 - marked)
        #expect(doubtful.isDisjoint(with: accepted.map { String($0.prefix(64)) }))
        #expect(try unknownBytes(fleet, "once") == marked)
        #expect(try await fleet.peal(["audit"]).end == .exit(0))
    }

    /// How many bytes `u` the ledgers of a campaign have.
    private func unknownBytes(_ fleet: Fleet, _ campaign: String) throws -> Int {
        let keys = try fleet.redis.command("KEYS", "peal:campaign:\(campaign):shard:*:ledger")
        return try (keys.array ?? []).compactMap(\.string).reduce(0) {
            try $0 + (fleet.redis.command("GET", $1).bytes ?? []).count { $0 == UInt8(ascii: "u") }
        }
    }

    @Test(
        "its job goes on, wherever it died before the first send",
        arguments: ["after_take", "before_plan_close"])
    func beforeSending(place: String) async throws {
        let fleet = try await Fleet()
        try fleet.enqueue("early", 3000)
        let victim = try fleet.worker(environment: ["PEAL_FAIL_POINT": place])
        #expect(try await victim.wait() == .signal(9))
        #expect(try fleet.redis.command("LLEN", "peal:jobs").integer == 0)
        let heir = try fleet.worker()
        try await eventually("it is completed", within: .seconds(60)) {
            try fleet.state("early") == "completed"
        }
        heir.send(15)
        #expect(try await heir.wait() == .exit(0))
        let record = try await fleet.finalRecord()
        #expect(record.count(200) == 3000)
        #expect(record.doubles == 0)
        #expect(try fleet.redis.command("KEYS", "peal:claims:*").array?.isEmpty == true)
        #expect(try await fleet.peal(["audit"]).end == .exit(0))
    }

    @Test("by SIGTERM it drains, gives back, and nothing is sent twice")
    func drain() async throws {
        let fleet = try await Fleet(simulator: ["--latency", "200ms"])
        try fleet.enqueue("drained", 12_000)
        let first = try fleet.worker(["--connections", "2", "--rate", "500"])
        try await eventually("it sends") { try fleet.counters("drained")["accepted"] ?? 0 > 500 }
        first.send(15)
        #expect(try await first.wait() == .exit(0))
        #expect(try fleet.counters("drained")["in_flight"] == 0)
        #expect(try fleet.redis.command("ZCARD", "peal:leases").integer == 0)
        #expect(try fleet.redis.command("ZCARD", "peal:workers").integer == 0)
        let second = try fleet.worker(["--once", "--connections", "4"])
        #expect(try await second.wait(within: .seconds(60)) == .exit(0))
        let record = try await fleet.finalRecord()
        #expect(record.count(200) == 12_000)
        #expect(record.doubles == 0)
    }
}
