import JSON
import Redis
import TestKit
import Testing

@Suite("A campaign")
struct CampaignTests {
    @Test("ends with every recipient in one class, and record, ledger and counters agree")
    func account() async throws {
        let fleet = try await Fleet(simulator: [
            "--gone", "5%", "--bad", "1%", "--too-many", "3%", "--unavailable", "1%", "--seed", "3",
        ])
        let first = Fleet.token("all", 0)
        try fleet.enqueue(
            "all", 6000,
            #""retry": {"base_delay_ms": 50, "server_error_delay_s": 0}, "ttl": 60"#,
            extra: [first, first, first.uppercased(), "no token", ""])
        let worker = try fleet.worker(["--once"])
        #expect(try await worker.wait(within: .seconds(60)) == .exit(0))
        let status = try await fleet.status("all")
        let record = try await fleet.finalRecord()
        func number(_ name: String) -> Int { Int(status[name]?.integer ?? -1) }
        #expect(status["state"]?.string == "completed")
        #expect(number("total") == 6005)
        #expect(number("skipped") == 5)
        #expect(record.doubles == 0)
        #expect(record.tokens(200).count == number("accepted"))
        #expect(record.tokens(410).count == number("gone"))
        #expect(record.tokens(400).count == number("quarantined"))
        #expect(record.count(429) > 0)
        #expect(record.count(503) > 0)
        #expect(number("retries") == record.count(429) + record.count(503))
        let classes = [
            "accepted", "gone", "quarantined", "rejected", "skipped", "expired", "cancelled",
            "unknown",
        ]
        #expect(classes.reduce(0) { $0 + number($1) } == 6005)
        #expect(number("in_flight") + number("deferred") + number("untouched") == 0)
        // One apns-id per token, kept over retries.
        let ids = Dictionary(grouping: record.lines, by: \.token).mapValues {
            Set($0.map(\.id)).count
        }
        #expect(ids.values.allSatisfy { $0 == 1 })
        let events = try fleet.redis.command("LRANGE", "peal:deactivations", "0", "-1").array ?? []
        let objects = try events.map { try JSONValue.parse($0.bytes ?? []).object ?? [:] }
        #expect(Set(objects.compactMap { $0["token"]?.string }) == record.tokens(410))
        for event in objects.prefix(1) {
            #expect(
                Set(event.keys) == [
                    "token", "app", "topic", "environment", "status", "reason", "timestamp_ms",
                    "timestamp_source", "campaign", "seen_at_ms",
                ])
            #expect(event["timestamp_source"]?.string == "body")
        }
        #expect(try await fleet.peal(["audit"]).end == .exit(0))
        #expect(
            try fleet.redis.command("LLEN", "peal:quarantine").integer
                == Int64(number("quarantined")))
    }

    @Test("two at once share a worker: neither gets less than 40 % while both have work")
    func fairness() async throws {
        let fleet = try await Fleet()
        try fleet.enqueue("one", 12_000)
        try fleet.enqueue("two", 12_000)
        let worker = try fleet.worker(["--once", "--connections", "2"])
        #expect(try await worker.wait(within: .seconds(60)) == .exit(0))
        let record = try await fleet.finalRecord()
        let one = Set((0..<12_000).map { Fleet.token("one", $0) })
        let belongs = record.lines.map { one.contains($0.token) }
        // From the first send of the later one to the last send of the earlier one.
        let start = try max(
            #require(belongs.firstIndex(of: true)), #require(belongs.firstIndex(of: false)))
        let end = try min(
            #require(belongs.lastIndex(of: true)), #require(belongs.lastIndex(of: false)))
        #expect(end - start > 10_000)
        let share = Double(belongs[start...end].count { $0 }) / Double(end - start + 1)
        #expect((0.4...0.6).contains(share))
    }

    @Test("is shared by three workers, each connection within its pace")
    func threeWorkers() async throws {
        let fleet = try await Fleet(simulator: ["--latency", "10ms"])
        try fleet.enqueue("shared", 20_000)
        let workers = try (0..<3).map { _ in try fleet.worker(["--connections", "1"]) }
        try await eventually("it is completed", within: .seconds(60)) {
            try fleet.state("shared") == "completed"
        }
        for worker in workers { worker.send(15) }
        for worker in workers { #expect(try await worker.wait() == .exit(0)) }
        let record = try await fleet.finalRecord()
        #expect(record.doubles == 0)
        #expect(record.count(200) == 20_000)
        // Beyond 1650 a second the simulator answers 429.
        #expect(record.count(429) == 0)
        let perConnection = Dictionary(grouping: record.lines, by: \.connection).mapValues(\.count)
        #expect(perConnection.count == 3)
        #expect(perConnection.values.allSatisfy { $0 > 3000 })
        #expect(try await fleet.peal(["audit"]).end == .exit(0))
    }

    @Test("takes its recipients from the job, a file or a list, and expires at its deadline")
    func audiences() async throws {
        let fleet = try await Fleet(simulator: ["--unavailable", "100%"])
        let lines = (0..<500).map { Fleet.token("file", $0) } + ["", "nonsense"]
        try fleet.folder.write("people.tokens", lines.joined(separator: "\r\n"))
        let soon = WallClockText.secondsFromNow(4)
        let late = """
            {"id": "late", "app": "shop", "payload": {"aps": {"alert": "a"}}, "deadline": \(soon),
            "audience": {"tokens": ["\(Fleet.token("late", 1))"]}}
            """
        for job in [
            late,
            """
            {"id": "file", "app": "shop", "payload": {"aps": {"alert": "a"}},
            "audience": {"file": "people.tokens"}, "retry": {"server_error_delay_s": 0}}
            """,
            """
            {"id": "inline", "app": "shop", "payload": {"aps": {"content-available": 1}},
            "audience": {"tokens": ["\(Fleet.token("inline", 1))", "abc"]},
            "retry": {"server_error_delay_s": 0}}
            """,
        ] {
            try fleet.redis.command("LPUSH", "peal:jobs", job)
        }
        let worker = try fleet.worker(["--once", "--audience-dir", fleet.folder.path])
        #expect(try await worker.wait(within: .seconds(60)) == .exit(0))
        #expect(try fleet.counters("file")["accepted"] == 500)
        #expect(try fleet.counters("file")["skipped"] == 1)
        #expect(try fleet.counters("inline")["accepted"] == 1)
        #expect(try fleet.counters("inline")["skipped"] == 1)
        #expect(try fleet.counters("late")["expired"] == 1)
        // The same job again after its deadline is a duplicate, not a job that cannot run.
        try fleet.redis.command("LPUSH", "peal:jobs", late)
        let second = try fleet.worker(["--once", "--audience-dir", fleet.folder.path])
        #expect(try await second.wait() == .exit(0))
        #expect(second.errors.contains("job_duplicate"))
        #expect(try fleet.redis.command("LLEN", "peal:dead").integer == 0)
        #expect(try await fleet.peal(["audit"]).end == .exit(0))
    }

    @Test("that is paused stops, and resumes with exactly what was not sent")
    func pause() async throws {
        let fleet = try await Fleet()
        try fleet.enqueue("paused", 9000)
        let worker = try fleet.worker(["--connections", "1", "--rate", "300"])
        try await eventually("something is sent") {
            try fleet.counters("paused")["accepted"] ?? 0 > 100
        }
        #expect(try await fleet.peal(["pause", "paused"]).output == "paused: paused\n")
        try await eventually("nothing is in flight") {
            try fleet.counters("paused")["in_flight"] == 0
                && fleet.redis.command("ZCARD", "peal:leases").integer == 0
        }
        let still = try fleet.counters("paused")["accepted"] ?? 0
        #expect(still < 9000)
        #expect(try await fleet.peal(["audit", "paused"]).end == .exit(0))
        worker.send(15)
        #expect(try await worker.wait() == .exit(0))
        #expect(try await fleet.peal(["resume", "paused"]).output == "paused: running\n")
        let second = try fleet.worker(["--once"])
        #expect(try await second.wait(within: .seconds(60)) == .exit(0))
        #expect(try fleet.state("paused") == "completed")
        let record = try await fleet.finalRecord()
        #expect(record.count(200) == 9000)
        #expect(record.doubles == 0)
    }
}
