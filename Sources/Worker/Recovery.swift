internal import Base
internal import JobQueue
internal import Redis
internal import Telemetry

/// Takes back what dead workers held, wakes parked shards, obeys controls and does chores, on a
/// thread of its own.
///
/// Every worker does; nothing waits for a start-up.
///
/// 1. A lease seen expired twice, half a lease apart on this machine's monotonic clock and with
///    unchanged epoch and revision, is taken back: a clock that jumps takes nothing from the
///    living.
/// 2. Jobs that a dead worker had taken go back to the intake list.
/// 3. Parked shards that are due become claimable.
/// 4. What backends pushed onto the control list is obeyed, and the chores that this leaves (a
///    cancelled campaign's shards, for example) are done a part at a time.
/// 5. Open shards that lost their lease, their place in a list or all their keys are found.
/// 6. Runs whose campaign was paused or cancelled are told at once, whatever their commits wait
///    for.
/// 7. Campaigns that ended long enough ago are removed from Redis, a part at a time.
final class Recovery: Sendable {
    /// A control takes effect within a second: this is the part of it before its state is changed.
    static let interval = Nanoseconds.milliseconds(250)
    /// Time between two looks for expired leases.
    static let lookInterval = Nanoseconds.seconds(1)
    /// Time between two parts of the roll-call.
    static let rollInterval = Nanoseconds.seconds(10)
    /// Time between the first and the second look at one lease.
    static let secondLook = Nanoseconds.milliseconds(JobStore.leaseMilliseconds / 2)
    /// Parts of chores in one turn, so that a large campaign is swept quickly and others wait
    /// little.
    static let choresPerTurn = 16
    /// Time between two turns while this worker removes a campaign.
    static let removalInterval = Nanoseconds.milliseconds(25)
    /// Milliseconds between two removed parts, by all workers together: what the removal takes of
    /// Redis' time does not grow with the fleet.
    static let removalPause = 20

    /// What the turns have seen so far.
    struct Memory {
        /// When each expired lease was seen for the first time.
        var seen: [JobStore.Expired: Instant] = [:]
        /// Where the look for parked shards with times too far ahead goes on.
        var rank = 0
        var lastLook: Instant?
        /// Where the roll-call goes on.
        var cursor = "0"
        var lastRoll: Instant?
        /// This worker removed a part of a campaign in its latest turn, and there may be more.
        var isRemoving = false
    }

    private let shared: WorkerShared
    private let unparked: @Sendable () -> Void
    private let stopped: @Sendable ([String]) -> Void

    /// - `unparked`: called when there may be something to claim.
    /// - `stopped`: called with campaigns that this worker has shards of and that do not run.
    init(
        _ shared: WorkerShared, unparked: @escaping @Sendable () -> Void,
        stopped: @escaping @Sendable ([String]) -> Void
    ) {
        self.shared = shared
        self.unparked = unparked
        self.stopped = stopped
    }

    func run() {
        let store = shared.makeStore("recovery")
        var backoff = Backoff("recover", shared.readiness)
        var memory = Memory()
        while !shared.isStopping {
            do throws(RedisError) {
                try turn(store, &memory, now: Instant.now())
                backoff.succeeded(shared.log)
                pause(memory.isRemoving ? Recovery.removalInterval : Recovery.interval)
            } catch {
                guard error.isWaitedOut else {
                    shared.fail("recovering", error)
                    return
                }
                memory = Memory()  // what was seen before the trouble proves nothing
                pause(backoff.failed(error, shared.log))
            }
        }
    }

    /// One turn of the thread.
    func turn(_ store: JobStore, _ memory: inout Memory, now: Instant) throws(RedisError) {
        let (taken, ended) = try store.obeyControls(watching: shared.heldCampaigns)
        if !ended.isEmpty { stopped(ended) }
        if taken > 0 { unparked() }
        var chores = 0
        while chores < Recovery.choresPerTurn, try store.doChore() { chores += 1 }
        memory.isRemoving = try removePart(store)
        let looks = memory.lastLook.map { now - $0 >= Recovery.lookInterval } ?? true
        var rank = looks ? memory.rank : nil
        if try store.unpark(checking: &rank) > 0 { unparked() }
        guard looks else { return }
        memory.lastLook = now
        memory.rank = rank ?? 0
        try look(store, &memory.seen, now)
        guard now - (memory.lastRoll ?? now) >= Recovery.rollInterval || memory.lastRoll == nil
        else { return }
        memory.lastRoll = now
        let mended = try store.callRoll(&memory.cursor)
        if mended > 0 {
            shared.log.error(
                "shards_mended", "keys of Peal were deleted by somebody; open shards go on",
                [("shards", .number(mended))])
        }
    }

    /// Removes a part of a campaign that ended long enough ago; false when there was none.
    private func removePart(_ store: JobStore) throws(RedisError) -> Bool {
        let result = try store.cleanUp(
            keptMilliseconds: shared.settings.retainMilliseconds, pause: Recovery.removalPause)
        switch result {
        case .none, .wait: return false
        case .part: return true
        case .gone(let campaign):
            shared.log.info(
                "campaign_removed", "it ended longer ago than --retain; its id is free again",
                [("campaign", .text(campaign))])
            return true
        }
    }

    private func look(
        _ store: JobStore, _ seen: inout [JobStore.Expired: Instant], _ now: Instant
    ) throws(RedisError) {
        let (leases, workers) = try store.expired()
        var still: [JobStore.Expired: Instant] = [:]
        for lease in leases {
            let first = seen[lease] ?? now
            guard now - first >= Recovery.secondLook else {
                still[lease] = first
                continue
            }
            tell(try store.reclaim(lease), lease.member)
        }
        seen = still
        for worker in workers where worker != shared.id {
            let jobs = try store.adoptOrphans(of: worker)
            if jobs > 0 {
                shared.log.warning(
                    "jobs_recovered", "their worker is gone; they are back on the intake list",
                    [("dead_worker", .text(worker)), ("jobs", .number(jobs))])
            }
        }
    }

    private func tell(_ result: JobStore.Reclaimed, _ lease: String) {
        let fields: [(String, LogValue)] = [("lease", .text(lease))]
        switch result {
        case .kept: break
        case .plan:
            shared.log.warning(
                "plan_recovered", "its worker is gone; the plan is made again", fields)
        case .planFailed:
            shared.log.error(
                "campaign_failed", "planning it ended too many workers; peal status says more",
                fields)
        case .paused:
            shared.log.error(
                "campaign_paused", "a shard of it ended too many workers; peal status says more",
                fields)
        case .shard(let resent, let unknown, let poison, let level):
            shared.log.warning(
                "shard_recovered", "its worker is gone; the shard goes on with another one",
                fields + [
                    ("in_flight_again", .number(resent)), ("unknown", .number(unknown)),
                    ("level", .number(level)),
                ])
            if poison > 0 {
                shared.log.error(
                    "recipient_poison",
                    "a recipient was alone in flight in three deaths of workers; it is rejected "
                        + "as Poison", fields)
            }
        }
    }

    private func pause(_ length: Int64) {
        let end = Instant.now() + length
        while !shared.isStopping, Instant.now() < end {
            Thread.sleep(nanoseconds: min(end - Instant.now(), Nanoseconds.milliseconds(100)))
        }
    }
}
