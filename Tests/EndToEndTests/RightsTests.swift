import JSON
import Redis
import TestKit
import Testing

/// What Redis' user needs as the README says it, with users that have nothing else.
@Suite("With few rights in Redis", .serialized)
struct RightsTests {
    /// The rights of workers and of the commands of the program.
    static let worker = [
        "resetkeys", "resetchannels", "-@all", "~peal", "~peal:*", "%R~audience:*", "+@string",
        "+@hash", "+@list", "+@sortedset", "+@keyspace", "-@dangerous", "+evalsha",
        "+script|load", "+time", "+role", "+info", "+client|setname",
    ]
    /// The rights of a backend that enqueues, steers and takes deactivations.
    ///
    /// The last three are what this test's client needs to sign in, not the backend.
    static let backend = [
        "resetkeys", "resetchannels", "-@all", "~audience:*", "%W~peal:jobs", "%W~peal:control",
        "~peal:deactivations", "~backend:*", "+rpush", "+lpush", "+lrange", "+lmove", "+lrem",
        "+info", "+role", "+client|setname",
    ]

    private func allow(_ fleet: Fleet, _ name: String, _ rules: [String]) throws {
        try fleet.redis.connection().command(
            (["ACL", "SETUSER", name, "on", ">secret"] + rules).map { Array($0.utf8) })
    }

    private func url(_ fleet: Fleet, _ name: String) -> String {
        "redis://\(name):secret@127.0.0.1:\(fleet.redis.port)"
    }

    private func worker(
        _ fleet: Fleet, _ options: [String] = []
    ) throws -> ChildProcess {
        try fleet.worker(options, redis: url(fleet, "peal"))
    }

    private func peal(_ fleet: Fleet, _ words: [String]) async throws -> ChildProcess.End {
        let result = try await fleet.peal(words + ["--redis", url(fleet, "peal")])
        return result.end
    }

    @Test("a worker, a backend and all commands do their work, and Redis refuses nothing")
    func enough() async throws {
        let fleet = try await Fleet(simulator: ["--gone", "10%", "--seed", "5"])
        try allow(fleet, "peal", Self.worker)
        try allow(fleet, "backend", Self.backend)
        let backend = RedisConnection(
            try RedisAddress(parsing: url(fleet, "backend")), checksRole: false)
        try fleet.enqueue("few", 4000)
        let first = try worker(fleet, ["--rate", "100", "--connections", "2"])
        try await eventually("it sends") { try fleet.counters("few")["accepted"] ?? 0 > 200 }
        #expect(try await peal(fleet, ["pause", "few"]) == .exit(0))
        try backend.command("LPUSH", "peal:control", "resume few")
        try await eventually("it goes on") { try fleet.state("few") == "running" }
        for words in [["status"], ["audit"], ["status", "--json"], ["results", "few"]] {
            #expect(try await peal(fleet, words) == .exit(0), "\(words)")
        }
        first.send(9)
        try await first.wait()
        let heir = try worker(fleet, ["--retain", "1s"])
        // Dead letters, and a campaign that ends by a cancel.
        try backend.command("LPUSH", "peal:jobs", "{broken")
        #expect(
            try backend.command("LMOVE", "peal:deactivations", "backend:mine", "RIGHT", "LEFT")
                .string != nil)
        try fleet.enqueue("never", 100)
        #expect(try await peal(fleet, ["cancel", "--ahead", "never"]) == .exit(0))
        try await eventually("it is completed", within: .seconds(60)) {
            try fleet.state("few") == "completed" || heir.errors.contains("campaign_removed")
        }
        try await eventually("it is removed", within: .seconds(30)) {
            try fleet.state("few") == nil
        }
        heir.send(15)
        #expect(try await heir.wait() == .exit(0))
        let refused = try fleet.redis.command("ACL", "LOG").array ?? []
        #expect(refused.isEmpty, "\(refused)")
    }

    @Test("a list that Peal may not read fails the campaign with its name, not for ever again")
    func unreadable() async throws {
        let fleet = try await Fleet()
        try allow(fleet, "peal", Self.worker.filter { $0 != "%R~audience:*" })
        try fleet.enqueue("closed", 10)
        let worker = try worker(fleet)
        try await eventually("it failed") { try fleet.state("closed") == "failed" }
        let reason = try fleet.redis.command("HGET", "peal:campaign:closed", "reason").string ?? ""
        #expect(reason.contains("may not read the Redis key audience:closed"))
        #expect(try fleet.redis.command("LLEN", "peal:dead").integer == 1)
        worker.send(15)
        #expect(try await worker.wait() == .exit(0))
    }

    @Test(
        "rights that are taken away hold a worker up with the reason; given back, it goes on",
        arguments: ["-evalsha", "-hset", "-blmove"])
    func takenAway(rule: String) async throws {
        let fleet = try await Fleet()
        try allow(fleet, "peal", Self.worker)
        let file = fleet.folder.file("status.json")
        let worker = try worker(fleet, ["--status-file", file])
        func status() -> JSONValue? {
            try? JSONValue.parse(Array(fleet.folder.text("status.json").utf8))
        }
        try await eventually("it is ready") { status()?["ready"] == true }
        try fleet.redis.command("ACL", "SETUSER", "peal", rule)
        try await eventually("it says why") {
            status()?["reasons"]?["redis"]?.string?.contains("lacks a right for") == true
        }
        #expect(worker.isRunning)
        try fleet.redis.command("ACL", "SETUSER", "peal", "+" + rule.dropFirst())
        try await eventually("it is ready again") { status()?["ready"] == true }
        try fleet.enqueue("later", 50)
        try await eventually("it is completed") { try fleet.state("later") == "completed" }
        worker.send(15)
        #expect(try await worker.wait() == .exit(0))
    }

    @Test("a right that is missing at the start ends it with one line that names what lacks it")
    func missing() async throws {
        let fleet = try await Fleet()
        try allow(fleet, "peal", Self.worker + ["-@sortedset"])
        let worker = try worker(fleet)
        #expect(try await worker.wait() == .exit(78))
        #expect(worker.errors.split(separator: "\n").count == 1)
        #expect(worker.errors.contains("lacks a right for the script heartbeat"))
    }
}
