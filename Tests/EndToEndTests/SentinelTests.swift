import Redis
import TestKit
import Testing

/// The master changes under load while commits wait for one replica.
@Suite("When the master changes")
struct SentinelTests {
    static let recipients = 20_000

    /// Workers that send a campaign under `skip`, until two thousand are accepted.
    static func start(_ fleet: Fleet) async throws -> [ChildProcess] {
        try fleet.enqueue("moved", recipients, #""on_unknown": "skip""#)
        let options = ["--connections", "2", "--rate", "500", "--shard-size", "2000"]
        let workers = try (0..<2).map { _ in
            try fleet.worker(options + ["--durability", "replicas:1"])
        }
        try await eventually("they send", within: .seconds(60)) {
            try fleet.counters("moved")["accepted"] ?? 0 > 2000
        }
        return workers
    }

    /// Waits for the end and compares record, ledger and counters.
    static func finish(_ fleet: Fleet, _ workers: [ChildProcess]) async throws {
        try await eventually("the campaign is completed", within: .seconds(90)) {
            (try? fleet.state("moved")) == "completed"
        }
        for worker in workers { worker.send(15) }
        for worker in workers { #expect(try await worker.wait() == .exit(0)) }
        let record = try await fleet.finalRecord()
        let counters = try fleet.counters("moved")
        #expect(record.doubles == 0)
        // The workers lived, so that every answer found its way into the ledger.
        #expect(counters["accepted"] == recipients)
        #expect(record.tokens(200).count == recipients)
        let classes = [
            "accepted", "gone", "quarantined", "rejected", "skipped", "expired", "cancelled",
            "unknown", "untouched", "in_flight", "deferred",
        ]
        #expect(classes.reduce(0) { $0 + (counters[$1] ?? 0) } == recipients)
        let audit = try await fleet.peal(["audit"])
        #expect(audit.end == .exit(0), "\(audit.output)")
    }

    @Test("by a planned failover, the campaign completes and nobody is sent twice")
    func planned() async throws {
        let cluster = try await SentinelCluster()
        let fleet = try await Fleet(simulator: ["--latency", "20ms"], cluster: cluster)
        let workers = try await Self.start(fleet)
        try await cluster.failover()
        let then = try fleet.counters("moved")["accepted"] ?? 0
        // The old master comes back as the replica that acknowledges.
        try await eventually("they go on with the new master") {
            (try? fleet.counters("moved")["accepted"]) ?? 0 > then + 2000
        }
        #expect(cluster.servers[1].port == (try cluster.master().port))
        try await Self.finish(fleet, workers)
    }

    @Test("by its death under load, the campaign completes and nobody is sent twice")
    func killed() async throws {
        // The second replica is the one that acknowledges after the first was promoted.
        let cluster = try await SentinelCluster(replicas: 2)
        let fleet = try await Fleet(simulator: ["--latency", "20ms"], cluster: cluster)
        let workers = try await Self.start(fleet)
        try await cluster.killMaster()
        try await Self.finish(fleet, workers)
        #expect(workers.allSatisfy { $0.errors.contains("redis_changed") })
    }

    @Test("a Redis that may evict keys ends the start with one line and exit code 78")
    func eviction() async throws {
        let fleet = try await Fleet()
        try fleet.redis.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        let worker = try fleet.worker()
        #expect(try await worker.wait() == .exit(78))
        #expect(worker.errors.split(separator: "\n").count == 1)
        #expect(worker.errors.contains("noeviction"))
        let willing = try fleet.worker(["--once", "--allow-eviction"])
        #expect(try await willing.wait() == .exit(0))
    }
}
