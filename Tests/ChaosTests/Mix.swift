import Base
import Redis
import TestKit

@testable import JobQueue

/// Random faults from a seed, one after another, into one run.
///
/// Several may last at a time: a worker that is frozen stays so while others happen.
final class Mix {
    /// What may happen, and how often relative to the others.
    private static let faults: [(weight: Int, fault: Fault)] = [
        (5, .kill), (1, .killAll), (2, .killDraining), (3, .freeze), (1, .freezePastLease),
        (2, .rolling), (3, .cutRedis), (4, .cutReply), (2, .cutAPNs), (2, .restartRedis),
        (1, .shutdownRedis), (1, .freezeRedis), (1, .refuseRedis), (1, .slowRedis),
        (1, .flushScripts), (2, .pause),
    ]

    private enum Fault: String {
        case kill, killAll, killDraining, freeze, freezePastLease, rolling, cutRedis, cutReply
        case cutAPNs, restartRedis, shutdownRedis, freezeRedis, refuseRedis, slowRedis
        case flushScripts, pause
    }

    private let run: ChaosRun
    private var random: SeededRandom
    private var frozen: [(worker: ChildProcess, until: ContinuousClock.Instant?)] = []
    /// Workers that were killed.
    private(set) var deaths = 0
    /// How rolling restarts ended that did not drain in full.
    private(set) var badEnds: [ChildProcess.End] = []
    private(set) var history: [String] = []

    init(_ run: ChaosRun, seed: UInt64) {
        self.run = run
        random = SeededRandom(seed: seed)
    }

    private func number(_ range: ClosedRange<Int>) -> Int {
        range.lowerBound + Int(random.next() % UInt64(range.count))
    }

    /// Lets faults happen until most recipients are accepted, or for three minutes.
    func play() async throws {
        let total = run.campaigns.reduce(0) { $0 + $1.total }
        let end = ContinuousClock.now + .seconds(180)
        while try run.accepted() < total * 4 / 5, ContinuousClock.now < end {
            try await apply(draw())
            try thawDue()
            try await run.pass(.milliseconds(number(200...3000)))
            try thawDue()
        }
        run.proxy.disarm()
        try await eventually("the frozen are thawed", within: .seconds(60)) {
            try thawDue()
            return frozen.isEmpty
        }
    }

    private func draw() -> Fault {
        var place = number(1...Mix.faults.reduce(0) { $0 + $1.weight })
        for (weight, fault) in Mix.faults {
            place -= weight
            if place <= 0 { return fault }
        }
        return .kill
    }

    private var awake: [ChildProcess] {
        run.workers.filter { worker in !frozen.contains { $0.worker === worker } }
    }

    /// Wakes those whose time has come; without a time, when their shards are taken back.
    private func thawDue() throws {
        for (worker, until) in frozen {
            guard until.map({ $0 <= ContinuousClock.now }) ?? (run.watch.pending == 0) else {
                continue
            }
            worker.send(18)
            frozen.removeAll { $0.worker === worker }
        }
    }

    private func apply(_ fault: Fault) async throws {
        history.append(fault.rawValue)
        switch fault {
        case .kill:
            let victims = awake
            if !victims.isEmpty { try await kill(try run.busiest(among: victims)) }
        case .killAll:
            for worker in awake { try await kill(worker) }
        case .killDraining:
            guard let worker = awake.first else { return }
            worker.send(15)
            try await run.pass(.milliseconds(number(1...300)))
            // One that had nothing to do has ended by itself.
            try await kill(worker)
        case .freeze:
            guard let worker = awake.last else { return }
            run.freeze(worker)
            try run.noteMarks(of: worker)
            frozen.append((worker, ContinuousClock.now + .milliseconds(number(500...10_000))))
        case .freezePastLease:
            guard awake.count > 1, let worker = awake.last else { return }
            run.freeze(worker)
            try run.noteLoss(of: worker)
            frozen.append((worker, nil))
        case .rolling:
            for worker in awake {
                let end = try await run.restart(worker)
                if end != .exit(0) { badEnds.append(end) }
            }
        case .cutAPNs: run.apnsProxy.cutAll()
        case .pause:
            for campaign in run.campaigns {
                _ = try await run.fleet.peal(["pause", campaign.name])
            }
            try await run.pass(.milliseconds(number(100...1500)))
            for campaign in run.campaigns {
                _ = try await run.fleet.peal(["resume", campaign.name])
            }
        default: try await applyToRedis(fault)
        }
    }

    private func applyToRedis(_ fault: Fault) async throws {
        run.watch.disturb()
        defer { run.watch.disturb() }
        switch fault {
        case .cutRedis: run.proxy.cutAll()
        case .cutReply:
            let scripts = [
                Scripts.commit, Scripts.claim, Scripts.heartbeat, Scripts.expired, Scripts.reclaim,
            ]
            let digest = try run.digest(scripts[number(0...scripts.count - 1)])
            let cuts: [TCPProxy.Cut] = [
                .replyTo(text: digest), .replyTo(text: digest, passing: number(1...20)),
                .afterReplyBytes(number(1...2000)),
            ]
            run.proxy.arm(cuts[number(0...2)])
        case .restartRedis:
            run.fleet.redis.kill()
            try run.fleet.redis.restart()
        case .shutdownRedis:
            _ = try? run.fleet.redis.command("SHUTDOWN")
            try run.fleet.redis.restart()
        case .freezeRedis:
            run.fleet.redis.freeze()
            try await run.pass(.milliseconds(number(100...3000)))
            run.fleet.redis.thaw()
        case .refuseRedis:
            run.proxy.set(.refuse)
            try await run.pass(.milliseconds(number(100...8000)))
            run.proxy.set(.pass)
        case .slowRedis:
            run.proxy.set(.delay(milliseconds: number(5...250)))
            try await run.pass(.milliseconds(number(500...4000)))
            run.proxy.set(.pass)
            // What is still on its way arrives before anybody is killed.
            try await run.pass(.milliseconds(600))
        case .flushScripts: try run.fleet.redis.command("SCRIPT", "FLUSH")
        default: break
        }
    }

    private func kill(_ worker: ChildProcess) async throws {
        deaths += 1
        try await run.kill(worker)
    }
}
