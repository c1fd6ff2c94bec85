import TestKit
import Testing

extension ChaosTests {
    @Suite("Deaths")
    struct DeathTests {
        @Test("three workers killed in turn: nobody is lost, doubled as far as the policy allows")
        func kills() async throws {
            let run = try await ChaosRun("kill -9 three times")
            try await run.begin()
            for share in [0.1, 0.25, 0.4] {
                try await run.reach(share)
                try await run.kill(run.workers[0])
            }
            let verdict = try await run.finish()
            #expect(verdict.violations.isEmpty)
            #expect(run.watch.seen.recoveries.count == 3)
            // Under skip, exactly who was in flight.
            #expect(verdict.accounts[1].unknown == run.campaigns[1].marks)
        }
    }
}
