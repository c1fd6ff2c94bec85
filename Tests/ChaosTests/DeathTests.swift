import Redis
import TestKit
import Testing

extension ChaosTests {
    @Suite("Deaths of workers")
    struct DeathTests {
        @Test("three killed in turn: nobody is lost, doubled only as far as the policy allows")
        func kills() async throws {
            let run = try await ChaosRun("kill -9 three times")
            try await run.begin()
            for share in [0.1, 0.25, 0.4] {
                try await run.reach(share)
                try await run.kill()
            }
            let verdict = try await run.finish()
            #expect(verdict.violations.isEmpty)
            #expect(run.watch.seen.recoveries.count == 3)
            // Under skip, exactly who was in flight.
            #expect(verdict.accounts[1].unknown == run.campaigns[1].marks)
        }

        @Test("each at another place between claim and commit: the account holds")
        func sending() async throws {
            let run = try await ChaosRun("death at each place of sending")
            let places = [
                "before_claim:2", "after_claim:2", "before_send:300", "before_commit:3",
                "after_commit:1", "after_commit:5",
            ]
            let victims = try places.map {
                try run.startWorker(environment: ["PEAL_FAIL_POINT": $0])
            }
            for victim in victims {
                try await run.hasDied(victim)
                #expect(victim.end == .signal(9))
            }
            try await run.begin()
            let verdict = try await run.finish()
            #expect(verdict.violations.isEmpty)
            #expect(run.lines("shard_recovered").count >= 5)
        }

        @Test("each at another place before the first send: nobody is sent twice or left out")
        func planning() async throws {
            let run = try await ChaosRun("death at each place of planning")
            for place in ["after_register", "in_plan:2", "after_plan_finish"] {
                let victim = try run.startWorker(environment: ["PEAL_FAIL_POINT": place])
                try await run.hasDied(victim)
                #expect(victim.end == .signal(9))
            }
            try await run.begin()
            let verdict = try await run.finish()
            #expect(verdict.violations.isEmpty)
            #expect(verdict.accounts.allSatisfy { $0.doubled == 0 && $0.unknown == 0 })
        }

        @Test("SIGTERM to each in turn, twice: nobody is doubled and nobody unknown")
        func rolling() async throws {
            let run = try await ChaosRun("rolling restart, twice")
            try await run.begin()
            for _ in 0..<2 {
                for worker in run.workers {
                    #expect(try await run.restart(worker) == .exit(0))
                }
            }
            let verdict = try await run.finish()
            #expect(verdict.violations.isEmpty)
            #expect(verdict.accounts.allSatisfy { $0.doubled == 0 && $0.unknown == 0 })
            #expect(run.campaigns.allSatisfy { $0.marks == 0 })
        }

        @Test("one that is frozen past its lease is fenced when it wakes, and sends nothing more")
        func frozen() async throws {
            let run = try await ChaosRun("SIGSTOP past the lease, and for 5 s")
            try await run.begin()
            let long = try run.busiest()
            let short = try #require(run.workers.first { $0 !== long })
            run.freeze(short)
            run.freeze(long)
            try run.noteLoss(of: long)
            try await run.pass(.seconds(5))
            short.send(18)
            try await eventually("its shards are taken back", within: .seconds(30)) {
                run.watch.pending == 0
            }
            long.send(18)
            let verdict = try await run.finish()
            #expect(verdict.violations.isEmpty)
            #expect(run.lines("shard_fenced").count > 0)
            #expect(short.errors.contains("shard_fenced") == false)
            #expect(verdict.accounts[1].unknown == run.campaigns[1].marks)
        }

        @Test("pause and resume in turn while workers are killed, then a cancel")
        func storm() async throws {
            let run = try await ChaosRun("pause, resume, kill -9, cancel")
            try await run.begin()
            for turn in 0..<6 {
                for action in ["pause", "resume"] {
                    for campaign in run.campaigns {
                        #expect(try await run.fleet.peal([action, campaign.name]).end == .exit(0))
                    }
                    if turn % 2 == 0, action == "pause", turn < 5 {
                        try await run.kill()
                    }
                }
            }
            try await run.reach(0.5)
            #expect(try await run.fleet.peal(["cancel", "again"]).end == .exit(0))
            let verdict = try await run.finish(states: ["completed", "cancelled"])
            #expect(verdict.violations.isEmpty)
            #expect(try run.fleet.state("again") == "cancelled")
            #expect(try run.fleet.state("once") == "completed")
            #expect(verdict.accounts[0].classes["cancelled", default: 0] > 0)
        }
    }
}
