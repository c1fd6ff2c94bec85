import JSON
import Redis
import TestKit
import Testing

@Suite("Retention")
struct RetentionTests {
    /// What the number of keys and the memory are compared with.
    struct Weight {
        let keys: Int
        let bytes: Int
    }

    /// Keys besides the buckets of the statistics, and memory in use.
    private func weigh(_ fleet: Fleet) throws -> Weight {
        let keys = (try fleet.redis.command("KEYS", "*").array ?? []).compactMap(\.string).filter {
            !$0.hasPrefix("peal:stats:") && !$0.hasPrefix("peal:latency:")
        }
        let info = try fleet.redis.command("INFO", "memory").string ?? ""
        let line = info.split(whereSeparator: \.isNewline).first { $0.hasPrefix("used_memory:") }
        let bytes = try #require(line.flatMap { Int($0.dropFirst("used_memory:".count)) })
        return Weight(keys: keys.count, bytes: bytes)
    }

    /// How often the worker has said that it removed a campaign.
    private func removals(_ worker: ChildProcess, _ campaign: String) -> Int {
        worker.errors.split(separator: "\n").count {
            $0.contains("\"campaign_removed\"") && $0.contains("\"campaign\":\"\(campaign)\"")
        }
    }

    /// Waits until nothing of a campaign is left, and throws its audience away.
    private func isGone(_ fleet: Fleet, _ worker: ChildProcess, _ campaign: String) async throws {
        try await eventually("\(campaign) is removed", within: .seconds(60)) {
            removals(worker, campaign) == 1
        }
        try fleet.redis.command("DEL", "audience:\(campaign)")
        #expect(
            try fleet.redis.command("KEYS", "peal:campaign:\(campaign)*").array?.isEmpty == true)
    }

    @Test("what is over leaves Redis: keys and memory are back where they were after the first one")
    func back() async throws {
        let fleet = try await Fleet(simulator: ["--gone", "10%", "--seed", "5"])
        let worker = try fleet.worker(["--retain", "1s", "--shard-size", "500"])
        try fleet.enqueue("first", 3000)
        try await isGone(fleet, worker, "first")
        try await eventually("the pause between two parts is over") {
            try fleet.redis.command("EXISTS", "peal:retire_pause").integer == 0
        }
        // What a consumer takes over is no part of the campaigns.
        try fleet.redis.command("DEL", "peal:deactivations", "peal:quarantine")
        let baseline = try weigh(fleet)
        for campaign in ["one", "two", "three"] { try fleet.enqueue(campaign, 6000) }
        try await eventually("they are there") {
            try fleet.redis.command("HLEN", "peal:open").integer ?? 0 > 0
        }
        let full = try weigh(fleet)
        #expect(full.keys > baseline.keys + 20)
        for campaign in ["one", "two", "three"] { try await isGone(fleet, worker, campaign) }
        try fleet.redis.command("DEL", "peal:deactivations", "peal:quarantine")
        try await eventually("the pause between two parts is over") {
            try fleet.redis.command("EXISTS", "peal:retire_pause").integer == 0
        }
        let after = try weigh(fleet)
        #expect(after.keys <= baseline.keys)
        // The three have weighed about 3 MB with their audiences.
        try await eventually("memory is freed") {
            try weigh(fleet).bytes < baseline.bytes + 1_000_000
        }
        #expect(try fleet.redis.command("ZCARD", "peal:campaigns").integer == 0)
        let unknown = try await fleet.peal(["results", "one"])
        #expect(unknown.end == .exit(1))
        #expect(unknown.errors.contains("there is no campaign one"))

        // The id is free: another campaign, with its own content.
        try fleet.enqueue("one", 20, #""collapse_id": "again""#)
        try await eventually("it is sent and removed", within: .seconds(60)) {
            removals(worker, "one") == 2
        }
        #expect(try fleet.redis.command("LLEN", "peal:dead").integer == 0)
        worker.send(15)
        #expect(try await worker.wait() == .exit(0))
    }
}
