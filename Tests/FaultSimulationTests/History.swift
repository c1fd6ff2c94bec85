import Base
import JobQueue
import Redis

@testable import Campaign
@testable import Worker

/// What happened in a run, as the checker needs it, and what must not happen at any moment.
///
/// A recipient is in doubt when its request was under way, or its answer not written, as its owner
/// died or lost the shard, or when its answer was lost: each doubt allows one acceptance more under
/// `resend`, and an end as unknown.
final class History {
    /// A dead worker's shard goes on within this time.
    static let recoveryLimit = Nanoseconds.milliseconds(25_500)

    private let world: World
    private let faults: Faults
    /// What went wrong, in sentences.
    private(set) var violations: [String] = []
    private(set) var sends = 0
    private(set) var deaths: [(worker: String, at: Instant)] = []
    /// Doubts of each recipient, those of lost answers among them.
    private(set) var doubts: [Int: Int] = [:]
    private(set) var lostAnswers: [Int: Int] = [:]
    /// The plans under which each recipient was sent to.
    private(set) var plans: [Int: Set<String>] = [:]
    /// The nonce of the latest claim of each shard; empty once it was taken back.
    private var owners: [String: String] = [:]
    /// Runs that lost their shards, kept so that their names stay theirs.
    private var ended: [ActiveRun] = []
    private var lost: Set<ObjectIdentifier> = []
    private(set) var rollbacks = 0
    private(set) var hasJumped = false
    /// When something last kept workers or Redis from their work.
    private(set) var disturbedAt: Instant

    init(_ world: World, _ faults: Faults) {
        (self.world, self.faults) = (world, faults)
        disturbedAt = world.now
    }

    func fault(_ text: String) {
        guard violations.count < 20 else { return }
        world.note("VIOLATION \(text)")
        violations.append(text)
    }

    func disturbed() { disturbedAt = max(disturbedAt, world.now) }
    func rolledBack() {
        rollbacks += 1
        owners.removeAll()
        disturbed()
    }
    func jumped() {
        hasJumped = true
        disturbed()
    }

    func doubt(_ recipient: Int) {
        doubts[recipient, default: 0] += 1
        lostAnswers[recipient, default: 0] += 1
    }

    /// Recipients of a run that Redis may hold as in flight.
    static func inDoubt(_ active: ActiveRun) -> [Int] {
        guard let table = active.recipients else { return [] }
        var indexes: Set<Int> = []
        for index in active.run.ledger.indices
        where LedgerByte.isInFlight(active.run.ledger[index])
            || LedgerByte.isInFlight(active.run.committed[index])
        { indexes.insert(index) }
        for change in active.run.underWay?.changes ?? [] {
            for (place, byte) in change.known.enumerated() where LedgerByte.isInFlight(byte) {
                indexes.insert(change.offset + place)
            }
        }
        return indexes.sorted().map { Recipient.read(table.content($0)) }
    }

    func died(_ worker: SimulatedWorker) {
        deaths.append((worker.id, world.now))
        disturbed()
        for recipient in worker.lane.inDoubt { doubts[recipient, default: 0] += 1 }
    }

    /// A shard was taken back: its owner is dead, or was away and does not know it yet.
    private func takenBack(_ member: String, _ workers: [SimulatedWorker]) {
        for worker in workers where worker.isAlive {
            for active in worker.desk.runs.values
            where JobStore.Hold.shard(active.run.fence).member == member {
                ended(active, of: worker)
            }
        }
    }

    /// A run left its worker, or will.
    func ended(_ active: ActiveRun, of worker: SimulatedWorker) {
        guard active.recipients != nil, lost.insert(ObjectIdentifier(active)).inserted
        else { return }
        ended.append(active)
        for recipient in History.inDoubt(active) { doubts[recipient, default: 0] += 1 }
        if faults.kind == .steady, worker.lastAbsence == nil {
            fault(
                "\(worker.id) lives and lost shard \(active.run.fence.shard) of "
                    + active.run.fence.campaign)
        }
    }

    func sent(_ recipient: Int, _ fence: Fence, _ worker: SimulatedWorker) {
        sends += 1
        plans[recipient, default: []].insert(fence.plan)
        world.note("\(worker.id) sends \(recipient)")
        guard faults.kind == .steady, !hasJumped else { return }
        if owners[JobStore.Hold.shard(fence).member] != fence.nonce {
            fault("\(worker.id) sends to \(recipient) although its shard was taken back")
        }
    }

    /// Takes note of who owns which shard.
    func observe(
        _ call: SimulatedRedis.Call, _ replies: [RedisReply], _ workers: [SimulatedWorker]
    ) {
        guard case .scripts(let calls) = call else { return }
        for (call, reply) in zip(calls, replies) {
            let words = { String(decoding: call.arguments[$0], as: UTF8.self) }
            switch call.script.name {
            case "claim":
                guard let items = reply.array, items.count == 10 else { continue }
                owners["\(items[1].string ?? ""):\(items[2].string ?? "")"] = words(1)
            case "reassert" where reply.integer ?? 0 > 0:
                owners["\(words(0)):\(words(1))"] = words(4)
            case "commit":
                guard ["ok", "done"].contains(reply.array?.first?.string),
                    let owner = owners["\(words(0)):\(words(1))"], owner != words(4)
                else { continue }
                fault("a commit for \(words(0)):\(words(1)) counts that is not its owner's")
            case "reclaim" where reply.array?.first?.string == "shard":
                owners[words(0)] = ""
                takenBack(words(0), workers)
            default: break
            }
        }
    }

    /// A shard is still owned by a dead worker.
    func stuck(_ member: String, owner: String) {
        guard let death = deaths.first(where: { $0.worker == owner }) else { return }
        var since = max(death.at, disturbedAt)
        if faults.loss > 0 {
            let quiet = Nanoseconds.milliseconds(Faults.end + Faults.lateLimit)
            since = max(since, world.now + (quiet - world.milliseconds * 1_000_000))
        }
        if world.now - since > History.recoveryLimit {
            fault(
                "\(member) still belongs to \(owner), dead for "
                    + "\((world.now - death.at) / 1_000_000) ms")
        }
    }
}
