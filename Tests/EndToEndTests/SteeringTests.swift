import Base
import Redis
import TestKit
import Testing

@Suite("Pause, resume and cancel")
struct SteeringTests {
    /// Milliseconds from `start` (epoch) to the last request in the simulator's record.
    private func lastRequest(_ record: Record, after start: Int64) -> Double {
        (record.lines.map(\.time).max() ?? 0) - Double(start)
    }

    /// Three workers at full pace.
    private func busyFleet(
        _ campaign: String, _ count: Int
    ) async throws -> (
        fleet: Fleet, workers: [ChildProcess]
    ) {
        let fleet = try await Fleet(simulator: ["--latency", "20ms"])
        try fleet.enqueue(campaign, count)
        let workers = try (0..<3).map { _ in
            try fleet.worker(["--connections", "1", "--rate", "1000"])
        }
        try await eventually("all send") { try fleet.counters(campaign)["accepted"] ?? 0 > 3000 }
        return (fleet, workers)
    }

    @Test("a cancel stops three workers within a second, and whoever is left ends as cancelled")
    func cancel() async throws {
        let (fleet, workers) = try await busyFleet("ended", 60_000)
        let result = try await fleet.peal(["cancel", "ended"])
        let start = WallClock.milliseconds()
        #expect(result.output == "ended: cancelling\n")
        try await eventually("it is cancelled") { try fleet.state("ended") == "cancelled" }
        let counters = try fleet.counters("ended")
        #expect(try await fleet.peal(["audit"]).end == .exit(0))
        #expect(try fleet.redis.command("HLEN", "peal:open").integer == 0)
        #expect(try await fleet.peal(["resume", "ended"]).end == .exit(1))
        for worker in workers { worker.send(15) }
        for worker in workers { #expect(try await worker.wait() == .exit(0)) }
        let record = try await fleet.finalRecord()
        #expect(lastRequest(record, after: start) < 1000)
        #expect(record.doubles == 0)
        #expect(record.count(200) == counters["accepted"])
        #expect((counters["accepted"] ?? 0) + (counters["cancelled"] ?? 0) == 60_000)
        #expect(counters["cancelled"] ?? 0 > 0)
        for name in ["untouched", "in_flight", "deferred", "unknown"] {
            #expect(counters[name] ?? 0 == 0, "\(name)")
        }
    }

    @Test("a backend stops three workers by its list within a second, and resumes exactly the rest")
    func backend() async throws {
        let (fleet, workers) = try await busyFleet("list", 45_000)
        try fleet.redis.command("LPUSH", "peal:control", "pause list")
        let start = WallClock.milliseconds()
        try await eventually("all have stopped") {
            try fleet.state("list") == "paused"
                && fleet.redis.command("ZCARD", "peal:leases").integer == 0
        }
        let counters = try fleet.counters("list")
        #expect(counters["in_flight"] == 0)
        try await eventually("the record is written") {
            fleet.folder.text("record").utf8.count { $0 == 10 } == counters["accepted"]
        }
        #expect(lastRequest(fleet.record(), after: start) < 1000)
        try await eventually("its shards are held") {
            try fleet.redis.command("HLEN", "peal:open").integer == 0
        }
        #expect(try fleet.redis.command("HLEN", "peal:held").integer ?? 0 > 0)
        try fleet.redis.command("LPUSH", "peal:control", "resume list")
        try await eventually("it is completed", within: .seconds(60)) {
            try fleet.state("list") == "completed"
        }
        for worker in workers { worker.send(15) }
        for worker in workers { #expect(try await worker.wait() == .exit(0)) }
        let record = try await fleet.finalRecord()
        #expect(record.count(200) == 45_000)
        #expect(record.doubles == 0)
        #expect(try fleet.redis.command("HLEN", "peal:held").integer == 0)
    }

    @Test("a pause reaches a run that waits on its pace, and a hundred parked shards that wake")
    func waiting() async throws {
        let fleet = try await Fleet(simulator: ["--unavailable", "100%"])
        try fleet.enqueue("parked", 5000, #""retry": {"server_error_delay_s": 20}"#)
        let worker = try fleet.worker(["--shard-size", "50"])
        let slow = try await Fleet()
        try slow.enqueue("slow", 500)
        let slowWorker = try slow.worker(["--connections", "1", "--rate", "1"])
        try await eventually("all shards are parked") {
            try fleet.redis.command("ZCARD", "peal:deferred").integer == 100
        }
        try await eventually("some of them are sent again", within: .seconds(60)) {
            let counters = try fleet.counters("parked")
            return counters["accepted"] ?? 0 > 100
        }
        #expect(try await fleet.peal(["pause", "parked"]).output == "parked: paused\n")
        let start = WallClock.milliseconds()
        #expect(try await slow.peal(["pause", "slow"]).output == "slow: paused\n")
        let slowStart = WallClock.milliseconds()
        try await eventually("all have stopped") {
            try fleet.redis.command("ZCARD", "peal:leases").integer == 0
                && slow.redis.command("ZCARD", "peal:leases").integer == 0
        }
        // All parked shards wake meanwhile; nothing of them may be sent.
        try await eventually("they have woken", within: .seconds(60)) {
            try fleet.redis.command("ZCARD", "peal:deferred").integer == 0
        }
        let left = try fleet.counters("parked")["deferred"] ?? 0
        #expect(left > 0)
        #expect(try await fleet.peal(["cancel", "parked"]).output == "parked: cancelling\n")
        try await eventually("it is cancelled") { try fleet.state("parked") == "cancelled" }
        for process in [worker, slowWorker] { process.send(15) }
        for process in [worker, slowWorker] { #expect(try await process.wait() == .exit(0)) }
        let record = try await fleet.finalRecord()
        #expect(lastRequest(record, after: start) < 1000)
        #expect(record.doubles == 0)
        let account = try fleet.counters("parked")
        #expect(account["accepted"] == record.count(200))
        #expect((account["accepted"] ?? 0) + (account["cancelled"] ?? 0) == 5000)
        #expect(account["cancelled"] == left + (account["untouched"] ?? 0))
        #expect(lastRequest(try await slow.finalRecord(), after: slowStart) < 1000)
        let counters = try slow.counters("slow")
        #expect((counters["untouched"] ?? 0) + (counters["accepted"] ?? 0) == 500)
    }

    @Test("a cancel is obeyed when Redis is out of memory, and one ahead of its job, too")
    func cancelWithoutMemory() async throws {
        let fleet = try await Fleet()
        #expect(try await fleet.peal(["cancel", "early"]).end == .exit(1))
        #expect(try await fleet.peal(["cancel", "early", "--ahead"]).end == .exit(0))
        try fleet.enqueue("early", 100)
        try fleet.enqueue("full", 20_000)
        let worker = try fleet.worker(["--connections", "1", "--rate", "300"])
        try await eventually("it sends") { try fleet.counters("full")["accepted"] ?? 0 > 100 }
        #expect(try fleet.state("early") == "cancelled")
        try fleet.redis.command("CONFIG", "SET", "maxmemory", "1")
        #expect(try await fleet.peal(["cancel", "full"]).output == "full: cancelling\n")
        try await eventually("it is cancelled") { try fleet.state("full") == "cancelled" }
        worker.send(15)
        #expect(try await worker.wait() == .exit(0))
        let counters = try fleet.counters("full")
        #expect((counters["accepted"] ?? 0) + (counters["cancelled"] ?? 0) == 20_000)
        #expect(try await fleet.peal(["audit"]).end == .exit(0))
        #expect(try await fleet.finalRecord().count(200) == counters["accepted"])
    }
}
