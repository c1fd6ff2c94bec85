import Base
import FoundationEssentials
import Redis
import TestKit
import Testing

@testable import JobQueue

/// What `deploy/chaos` asks for.
private enum LongForm {
    static let minutes = number("PEAL_CHAOS_MINUTES") ?? 0
    static let seed = UInt64(number("PEAL_CHAOS_SEED") ?? 1)

    private static func number(_ name: String) -> Int? {
        ProcessInfo.processInfo.environment[name].flatMap { Int($0) }
    }
}

extension ChaosTests {
    /// What `deploy/chaos` runs: `PEAL_CHAOS_MINUTES` and `PEAL_CHAOS_SEED`.
    @Suite("The long form", .enabled(if: LongForm.minutes > 0))
    struct LongTests {
        /// The sums over all campaigns.
        private struct Totals {
            var campaigns = 0
            var recipients = 0
            var lost = 0
            var doubled: [String: Int] = [:]
            var unknown: [String: Int] = [:]
            var inDoubt: [String: Int] = [:]
            var faults: [String: Int] = [:]
            var deaths = 0
            var audits = 0
            var recoveries: [Int64] = []
            var violations = 0
        }

        @Test("a random mix of faults over many campaigns breaks no promise")
        func mix() async throws {
            let end = ContinuousClock.now + .seconds(LongForm.minutes * 60)
            var totals = Totals()
            var round = 0
            while ContinuousClock.now < end {
                round += 1
                try await play(round, LongForm.seed &+ UInt64(round) &* 1_000_003, &totals)
            }
            say(totals)
            #expect(totals.violations == 0)
        }

        private func play(_ round: Int, _ seed: UInt64, _ totals: inout Totals) async throws {
            var sizes = ChaosRun.Sizes()
            sizes.recipients = 30_000
            sizes.rate = 400
            sizes.shardSize = 2000
            let run = try await ChaosRun("round \(round)", sizes)
            let mix = Mix(run, seed: seed)
            do {
                try await run.begin()
                try await mix.play()
                let slow = try slowCalls(run)
                let verdict = try await run.finish(within: .seconds(180))
                for account in verdict.accounts {
                    totals.campaigns += 1
                    totals.recipients += account.total
                    totals.lost += account.lost
                    totals.doubled[account.policy, default: 0] += account.doubled
                    totals.unknown[account.policy, default: 0] += account.unknown
                    totals.inDoubt[account.policy, default: 0] += account.inDoubt
                }
                totals.violations += verdict.violations.count
                if !slow.isEmpty { ChaosVerdict.say("round \(round), slow calls: \(slow)") }
            } catch {
                totals.violations += 1
                ChaosVerdict.say("VIOLATION: round \(round): \(error)")
                for worker in run.workers { ChaosVerdict.say(String(worker.errors.suffix(600))) }
            }
            if !mix.badEnds.isEmpty {
                totals.violations += 1
                ChaosVerdict.say("VIOLATION: round \(round): SIGTERM ended with \(mix.badEnds)")
            }
            for fault in mix.history { totals.faults[fault, default: 0] += 1 }
            totals.deaths += mix.deaths
            totals.audits += run.watch.seen.audits
            totals.recoveries += run.watch.seen.recoveries
            ChaosVerdict.say("round \(round), faults: \(mix.history.joined(separator: " "))")
        }

        private func say(_ totals: Totals) {
            ChaosVerdict.say(
                "\(totals.campaigns) campaigns, \(totals.recipients) recipients, "
                    + "\(totals.deaths) deaths, \(totals.audits) audits, "
                    + "\(totals.violations) violations")
            for policy in ["resend", "skip"] {
                ChaosVerdict.say(
                    "\(policy): doubled \(totals.doubled[policy, default: 0]), unknown "
                        + "\(totals.unknown[policy, default: 0]), in doubt at most "
                        + "\(totals.inDoubt[policy, default: 0])")
            }
            ChaosVerdict.say("lost \(totals.lost)")
            let times = totals.recoveries.sorted()
            if let longest = times.last {
                ChaosVerdict.say(
                    "recoveries \(times.count), half within "
                        + "\(ChaosVerdict.tenths(Double(times[times.count / 2]) / 1e9)) s, all "
                        + "within \(ChaosVerdict.tenths(Double(longest) / 1e9)) s")
            }
            ChaosVerdict.say(
                totals.faults.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
                    .joined(separator: ", "))
        }

        /// Scripts that took 10 ms or more, with the longest time of each, since Redis started.
        private func slowCalls(_ run: ChaosRun) throws -> String {
            let scripts = [
                Scripts.commit, Scripts.claim, Scripts.heartbeat, Scripts.expired, Scripts.reclaim,
                Scripts.planWrite, Scripts.planClose, Scripts.planFinish, Scripts.planClear,
                Scripts.unpark, Scripts.rollCall, Scripts.chore, Scripts.retire, Scripts.controls,
                Scripts.register, Scripts.auditShard, Scripts.auditCampaign, Scripts.orphans,
            ]
            var names: [String: String] = [:]
            for script in scripts { names[try run.digest(script)] = script.name }
            var longest: [String: Int64] = [:]
            for entry in try run.fleet.redis.command("SLOWLOG", "GET", "1000").array ?? [] {
                guard let fields = entry.array, fields.count > 3, let time = fields[2].integer,
                    let words = fields[3].array, words.count > 1, words[0].string == "EVALSHA",
                    let name = names[words[1].string ?? ""]
                else { continue }
                longest[name] = max(longest[name] ?? 0, time)
            }
            return longest.sorted { $0.key < $1.key }.map {
                "\($0.key) \(ChaosVerdict.tenths(Double($0.value) / 1000)) ms"
            }.joined(separator: ", ")
        }
    }
}
