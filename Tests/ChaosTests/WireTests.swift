import Redis
import TestKit
import Testing

extension ChaosTests {
    @Suite("Connections to APNs and keys in Redis")
    struct WireTests {
        @Test("connections to APNs cut and deaf: who has no answer is sent again, or unknown")
        func apns() async throws {
            var sizes = ChaosRun.Sizes()
            sizes.latency = "100ms"
            let run = try await ChaosRun("APNs cut three times, deaf for 8 s", sizes)
            try await run.begin()
            for share in [0.15, 0.25, 0.35] {
                try await run.reach(share)
                run.apnsProxy.cutAll()
            }
            run.apnsProxy.set(.blackHole)
            try await run.pass(.seconds(8))
            run.apnsProxy.set(.pass)
            let verdict = try await run.finish()
            #expect(verdict.violations.isEmpty)
            #expect(run.lines("shard_fenced").isEmpty)
            let (again, once) = (verdict.accounts[0], verdict.accounts[1])
            #expect(again.inDoubt > 0)
            #expect(once.unknown == once.inDoubt)
        }

        @Test("leases that somebody deleted: the living keep their shards, the dead lose theirs")
        func deletedLeases() async throws {
            let run = try await ChaosRun("all leases deleted, one worker killed")
            try await run.begin()
            try run.fleet.redis.command("DEL", "peal:leases")
            try await run.reach(0.3)
            try await run.kill()
            try run.fleet.redis.command("DEL", "peal:leases")
            let verdict = try await run.finish()
            #expect(verdict.violations.isEmpty)
            #expect(verdict.accounts[1].unknown == run.campaigns[1].marks)
        }

        @Test("shards that somebody deleted: the campaign ends as inconsistent, with their number")
        func deletedShards() async throws {
            let run = try await ChaosRun("two shards deleted")
            try await run.begin()
            var deleted = 0
            for shard in 0..<20 where deleted < 2 {
                let key = "peal:campaign:again:shard:\(shard)"
                // Shards that wait, and are as they were planned.
                guard try run.fleet.redis.command("HGET", key, "state").string == "ready" else {
                    continue
                }
                let parts = [key] + ["recipients", "ledger"].map { "\(key):\($0)" }
                let connection = try run.fleet.connection()
                try connection.command((["DEL"] + parts).map { Array($0.utf8) })
                deleted += 1
            }
            #expect(deleted == 2)
            try await eventually("both campaigns end", within: .seconds(60)) {
                try run.fleet.state("again") == "inconsistent"
                    && run.fleet.state("once") == "completed"
            }
            let reason =
                try run.fleet.redis.command("HGET", "peal:campaign:again", "reason").string ?? ""
            #expect(reason.contains("2 of its shards vanished"))
            let counters = try run.fleet.counters("again")
            let settled = ["accepted", "gone"].reduce(0) { $0 + (counters[$1] ?? 0) }
            #expect(reason.contains("\(sizesTotal(run) - settled) recipients is not known"))
            for worker in run.workers { worker.send(15) }
            for worker in run.workers { #expect(try await worker.wait() == .exit(0)) }
            let record = try await run.fleet.finalRecord()
            #expect(record.doubles == 0)
        }

        private func sizesTotal(_ run: ChaosRun) -> Int { run.campaigns[0].total }
    }
}
