import JSON
import Redis
import TestKit
import Testing

@Suite("In trouble")
struct TroubleTests {
    @Test(
        "jobs that cannot run become dead letters with all their faults, and the next one goes out")
    func deadLetters() async throws {
        let fleet = try await Fleet()
        let good = #""audience": {"tokens": ["abcd"]}, "payload": {"aps": {"alert": "a"}}"#
        let large = String(repeating: "x", count: 5000)
        let tokens = #""audience": {"tokens": ["ab"]}"#
        let payload = #""app": "shop", "payload": {"aps": {}}"#
        let big = #""payload": {"aps": {"alert": "\#(large)"}}"#
        let jobs = [
            "{broken": ["$"],
            #"{"id": "none"}"#: ["$.app", "$.payload", "$.audience"],
            #"{"id": "app", "app": "other", \#(good)}"#: ["$.app"],
            #"{"id": "two", "app": "other", "size": 1, \#(good)}"#: ["$.app", "$.size"],
            #"{"id": "field", "app": "shop", "colour": 1, "weight": "x", \#(good)}"#: [
                "$.colour", "$.weight",
            ],
            #"{"id": "late", "app": "shop", "deadline": 100, \#(good)}"#: ["$.deadline"],
            #"{"id": "big", "app": "shop", \#(big), \#(tokens)}"#: ["$.payload"],
            #"{"id": "empty", \#(payload), "audience": {"redis_list": "nobody"}}"#: ["$.audience"],
            #"{"id": "type", \#(payload), "audience": {"redis_list": "peal:campaigns"}}"#: [
                "$.audience.redis_list"
            ],
            #"{"id": "lost", \#(payload), "audience": {"file": "lost.txt"}}"#: ["$.audience.file"],
        ]
        for job in jobs.keys { try fleet.redis.command("LPUSH", "peal:jobs", job) }
        try fleet.enqueue("good", 100)
        let worker = try fleet.worker(["--once", "--audience-dir", fleet.folder.path])
        #expect(try await worker.wait() == .exit(0))
        #expect(try fleet.counters("good")["accepted"] == 100)
        let letters = try (fleet.redis.command("LRANGE", "peal:dead", "0", "-1").array ?? []).map {
            try JSONValue.parse($0.bytes ?? [])
        }
        #expect(letters.count == jobs.count)
        for letter in letters {
            let job = try #require(letter["job"]?.string)
            let paths = (letter["faults"]?.array ?? []).compactMap { $0["path"]?.string }
            #expect(Set(paths) == Set(jobs[job] ?? []), "\(job)")
        }
    }

    @Test("Redis that never comes leads to one clear line and exit code 69")
    func redisAbsent() async throws {
        let fleet = try await Fleet()
        fleet.redis.kill()
        let worker = try fleet.worker(["--start-timeout", "1s"])
        #expect(try await worker.wait() == .exit(69))
        let lines = worker.errors.split(separator: "\n")
        #expect(lines.count == 2)
        #expect(lines.last?.contains("redis_unreachable") == true)
    }

    @Test("a Redis that freezes or restarts costs nothing but time")
    func redisGone() async throws {
        let fleet = try await Fleet(appendOnly: true)
        try fleet.enqueue("gone", 20_000)
        let worker = try fleet.worker(["--connections", "2"])
        try await eventually("it sends") { try fleet.counters("gone")["accepted"] ?? 0 > 2000 }
        fleet.redis.freeze()
        try await eventually("the worker sees it") { worker.errors.contains("redis_trouble") }
        fleet.redis.thaw()
        try await eventually("it goes on") { worker.errors.contains("redis_back") }
        fleet.redis.kill()
        try fleet.redis.restart()
        try await eventually("it is completed", within: .seconds(90)) {
            try fleet.state("gone") == "completed"
        }
        worker.send(15)
        #expect(try await worker.wait() == .exit(0))
        let record = try await fleet.finalRecord()
        #expect(record.count(200) == 20_000)
        #expect(record.doubles == 0)
        #expect(try await fleet.peal(["audit"]).end == .exit(0))
    }

    @Test("a Redis that comes back with older data is written again, and nobody is sent twice")
    func rollback() async throws {
        let fleet = try await Fleet(appendOnly: true)
        try fleet.enqueue("older", 24_000)
        let worker = try fleet.worker([
            "--connections", "2", "--rate", "1000", "--shard-size", "1000",
        ])
        try await eventually("it sends") { try fleet.counters("older")["accepted"] ?? 0 > 2000 }
        // The file is whole at any moment: every write is on it before it is answered.
        fleet.redis.freeze()
        try fleet.redis.directory.copy("appendonlydir", to: "copy")
        fleet.redis.thaw()
        let then = try fleet.counters("older")["accepted"] ?? 0
        // Goes on for about two shards, which are claimed and finished in what will be lost: well
        // within the 5 s that a worker remembers.
        try await eventually("it goes on") {
            try fleet.counters("older")["accepted"] ?? 0 > then + 1600
        }
        fleet.redis.kill()
        try fleet.redis.directory.remove("appendonlydir")
        try fleet.redis.directory.copy("copy", to: "appendonlydir")
        try fleet.redis.restart()
        try await eventually("it is completed", within: .seconds(90)) {
            try fleet.state("older") == "completed"
        }
        worker.send(15)
        #expect(try await worker.wait() == .exit(0))
        #expect(worker.errors.contains("redis_changed"))
        let record = try await fleet.finalRecord()
        #expect(record.tokens(200).count == 24_000)
        #expect(record.doubles == 0)
        #expect(try fleet.counters("older")["accepted"] == 24_000)
        #expect(try await fleet.peal(["audit"]).end == .exit(0))
    }

    @Test("a server with another certificate gets nothing, and one line says why")
    func wrongCertificate() async throws {
        let fleet = try await Fleet()
        let other = try await Fleet()
        try fleet.enqueue("safe", 1000)
        let worker = try fleet.worker(authority: other.folder.file("certs/ca.pem"))
        try await eventually("it tries") { worker.errors.contains("apns_unreachable") }
        worker.send(15)
        #expect(try await worker.wait() == .exit(0))
        let line = try #require(
            worker.errors.split(separator: "\n").first { $0.contains("apns_unreachable") })
        #expect(line.contains("certificate is refused"))
        #expect(try fleet.counters("safe")["untouched"] == 1000)
        #expect(try await fleet.finalRecord().lines.isEmpty)
    }

    @Test("a key file that cannot be read leads to one clear line and exit code 78")
    func unreadableKey() async throws {
        let fleet = try await Fleet()
        try fleet.folder.write("broken.json", Fleet.apps(key: "missing.p8"))
        let worker = try fleet.worker(apps: "broken.json")
        #expect(try await worker.wait() == .exit(78))
        #expect(worker.errors.split(separator: "\n").count == 1)
        #expect(worker.errors.contains("missing.p8"))
    }

    @Test("a key that APNs does not know pauses the campaign and harms no token")
    func wrongKey() async throws {
        let fleet = try await Fleet()
        let other = try await Fleet()
        try fleet.folder.write(
            "other.json", Fleet.apps(key: other.folder.file("certs/AuthKey_PEALTEST01.p8")))
        try fleet.enqueue("kept", 2000)
        let wrong = try fleet.worker(apps: "other.json")
        try await eventually("it is paused") { try fleet.state("kept") == "paused" }
        wrong.send(15)
        #expect(try await wrong.wait() == .exit(0))
        let reason = try fleet.redis.command("HGET", "peal:campaign:kept", "reason").string ?? ""
        #expect(reason.contains("InvalidProviderToken"))
        #expect(try fleet.redis.command("LLEN", "peal:deactivations").integer == 0)
        #expect(try fleet.redis.command("LLEN", "peal:quarantine").integer == 0)
        #expect(try await fleet.peal(["resume", "kept"]).end == .exit(0))
        let right = try fleet.worker(["--once"])
        #expect(try await right.wait(within: .seconds(60)) == .exit(0))
        #expect(try fleet.counters("kept")["accepted"] == 2000)
        #expect(try await fleet.finalRecord().doubles == 0)
    }

    @Test("tokens of the wrong environment pause the campaign before they are all set aside")
    func wrongEnvironment() async throws {
        let fleet = try await Fleet(simulator: ["--bad", "100%"])
        try fleet.enqueue("wrong", 5000)
        let worker = try fleet.worker()
        try await eventually("it is paused") { try fleet.state("wrong") == "paused" }
        worker.send(15)
        #expect(try await worker.wait() == .exit(0))
        let counters = try fleet.counters("wrong")
        #expect(counters["quarantined"] ?? 0 < 100)
        #expect(counters["gone"] ?? 0 == 0)
        #expect(try await fleet.peal(["audit"]).end == .exit(0))
    }
}
