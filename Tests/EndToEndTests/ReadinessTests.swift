import JSON
import Redis
import TestKit
import Testing

@Suite("Readiness")
struct ReadinessTests {
    private func status(_ fleet: Fleet) -> JSONValue? {
        try? JSONValue.parse(Array(fleet.folder.text("status.json").utf8))
    }

    private func isReady(_ fleet: Fleet) -> Bool { status(fleet)?["ready"] == true }

    private func reason(_ fleet: Fleet, _ check: String) -> String {
        status(fleet)?["reasons"]?[check]?.string ?? ""
    }

    private func health(
        _ fleet: Fleet, _ more: [String] = []
    ) async throws -> (end: ChildProcess.End, output: String, errors: String) {
        try await fleet.peal(["health", "--status-file", fleet.folder.file("status.json")] + more)
    }

    @Test("without Redis a worker says that it is not ready and why, and that it is again")
    func redisAway() async throws {
        let fleet = try await Fleet()
        #expect(try await health(fleet).end == .exit(1))
        let worker = try fleet.worker(["--status-file", fleet.folder.file("status.json")])
        try await eventually("it is ready") { isReady(fleet) }
        let good = try await health(fleet)
        #expect(good.end == .exit(0))
        #expect(good.output == "ready\n")
        fleet.redis.kill()
        try await eventually("it is not ready") { status(fleet)?["ready"] == false }
        #expect(reason(fleet, "redis").contains("Redis"))
        let bad = try await health(fleet)
        #expect(bad.end == .exit(1))
        #expect(bad.errors.contains("redis: Redis at"))
        #expect(bad.errors.split(separator: "\n").count == 1)
        try fleet.redis.restart()
        try await eventually("it is ready again") { isReady(fleet) }
        try await eventually("the log says both") {
            worker.errors.contains(#""event":"not_ready""#)
                && worker.errors.components(of: #""event":"ready""#) == 2
        }
        try await eventually("Redis says it, too") {
            let workers = try fleet.redis.command("KEYS", "peal:worker:*").array ?? []
            let hash = workers.first?.string ?? "none"
            return try fleet.redis.command("HGET", hash, "ready").string == "1"
        }
        worker.send(15)
        #expect(try await worker.wait() == .exit(0))
        #expect(reason(fleet, "draining") != "")
        try await eventually("the file is old") {
            try await health(fleet, ["--max-age", "1s"]).errors.contains("s old")
        }
    }

    @Test("without memory in Redis it is not ready, and a campaign says that its plan waits")
    func outOfMemory() async throws {
        let fleet = try await Fleet()
        // 400 digits each, so that few recipients need much memory.
        let long = String(repeating: "ab", count: 192)
        let connection = fleet.redis.connection()
        for start in stride(from: 0, to: 16_000, by: 1000) {
            let tokens = (start..<start + 1000).map { number in
                let digits = String(number, radix: 16)
                return long + String(repeating: "0", count: 16 - digits.count) + digits
            }
            try connection.command(
                (["RPUSH", "audience:wide"] + tokens).map { Array($0.utf8) })
        }
        try fleet.enqueue("wide", 0)
        let info = try fleet.redis.command("INFO", "memory").string ?? ""
        let line = info.split(whereSeparator: \.isNewline).first { $0.hasPrefix("used_memory:") }
        let used = try #require(line.flatMap { Int($0.dropFirst("used_memory:".count)) })
        // Room for what the worker needs itself, but not for the 3.2 MB of recipients.
        try fleet.redis.command("CONFIG", "SET", "maxmemory", String(used + 2_500_000))
        let worker = try fleet.worker(["--status-file", fleet.folder.file("status.json")])
        try await eventually("the campaign says why its plan waits") {
            let status = try await fleet.peal(["status", "wide"])
            return status.output.contains("planning (planning waits: Redis is out of memory")
        }
        // Now it is full for everybody.
        try fleet.redis.command("CONFIG", "SET", "maxmemory", "1")
        try await eventually("it is not ready") {
            reason(fleet, "redis").contains("out of memory")
        }
        #expect(status(fleet)?["ready"] == false)
        try await eventually("Redis says it, too") {
            let workers = try fleet.redis.command("KEYS", "peal:worker:*").array ?? []
            let hash = workers.first?.string ?? "none"
            let because = try fleet.redis.command("HGET", hash, "not_ready_because").string ?? ""
            return because.contains("out of memory")
        }
        try fleet.redis.command("CONFIG", "SET", "maxmemory", "0")
        try await eventually("it is ready") { isReady(fleet) }
        try await eventually("the plan goes on") { try fleet.state("wide") == "running" }
        #expect(try fleet.redis.command("HGET", "peal:campaign:wide", "reason").string == nil)
        worker.send(15)
        #expect(try await worker.wait(within: .seconds(40)) == .exit(0))
        #expect(worker.errors.components(of: #""event":"not_ready""#) <= 6)
    }
}

extension String {
    /// How often `part` stands in it.
    fileprivate func components(of part: String) -> Int {
        var count = 0
        var rest = self[...]
        while let range = rest.firstRange(of: part) {
            count += 1
            rest = rest[range.upperBound...]
        }
        return count
    }
}
