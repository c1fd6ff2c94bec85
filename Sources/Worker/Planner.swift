internal import APNs
internal import Base
internal import Campaign
internal import JSON
internal import JobQueue
internal import Redis
internal import Telemetry

/// Plans campaigns: streams the audience into shards in Redis, on a thread of its own.
///
/// Planning is leased and fenced like a shard: a plan that is not finished when its worker dies is
/// made anew by another one, and sending starts only when the plan is complete.
final class Planner: Sendable {
    /// Bytes of windows in one call at most.
    private static let callBytes = 512 * 1024
    private static let idlePause = Nanoseconds.milliseconds(500)
    /// After a plan that this worker cannot make, others get the time to take it.
    private static let refusedPause = Nanoseconds.seconds(2)

    private let shared: WorkerShared
    private let planned: @Sendable () -> Void
    /// Wakes the thread when this worker registered a campaign.
    let bell = Mailbox<Void>(limit: 1)

    /// - `planned`: called after a plan was finished, to start claiming at once.
    init(_ shared: WorkerShared, planned: @escaping @Sendable () -> Void) {
        self.shared = shared
        self.planned = planned
    }

    func run() {
        let store = shared.makeStore("planner")
        var backoff = Backoff("plan campaigns", shared.readiness)
        while !shared.isStopping {
            let id = WorkerID.nonce()
            do {
                let claimed = try backoff.repeating(
                    shared.log, isStopped: { self.shared.isStopping }
                ) { () throws(RedisError) in
                    try store.claimPlan(worker: self.shared.id, plan: id)
                }
                guard case .some(.some(let plan)) = claimed else {
                    _ = bell.take(waitingAtMost: Planner.idlePause)
                    continue
                }
                make(plan, store)
            } catch {
                shared.fail("planning", error)
                return
            }
        }
    }

    /// Makes one claimed plan, whatever comes of it.
    func make(_ plan: JobStore.ClaimedPlan, _ store: JobStore) {
        let hold = JobStore.Hold.plan(campaign: plan.campaign, plan: plan.plan)
        shared.hold(hold)
        defer { shared.hold(hold, false) }
        var patience = Patience(plan)
        let started = Instant.now()
        do {
            guard case .success((let job, _)) = shared.read(plan.job, isAccepted: true) else {
                // It was valid when it was registered: this worker's apps file differs.
                shared.log.error(
                    "plan_unusable", "this worker cannot run the job: compare its apps file",
                    [("campaign", .text(plan.campaign))])
                try store.releasePlan(plan)
                shared.outside.sleep(Planner.refusedPause)
                return
            }
            let total = try write(job, plan, store, &patience)
            let fields: [(String, LogValue)] = [
                ("campaign", .text(plan.campaign)), ("recipients", .number(total)),
                ("ms", .number(Int((Instant.now() - started) / 1_000_000))),
            ]
            shared.log.info("campaign_planned", "sending can start", fields)
            planned()
        } catch let error as AudienceError {
            fail(plan, error, store, &patience)
        } catch is JobStore.PlanFenced {
            shared.log.warning(
                "plan_fenced", "another worker plans this campaign now",
                [("campaign", .text(plan.campaign))])
        } catch is JobStore.PlanRolledBack {
            shared.log.warning(
                "plan_rolled_back", "Redis lost a part of the plan; it is made again",
                [("campaign", .text(plan.campaign))])
            try? store.releasePlan(plan)
        } catch is CancellationError {
            try? store.releasePlan(plan)
        } catch {
            shared.log.error(
                "plan_failed", "\(error); the plan is made again after its lease ran out",
                [("campaign", .text(plan.campaign))])
        }
    }

    /// Makes the whole plan; returns the number of recipients.
    private func write(
        _ job: Job, _ plan: JobStore.ClaimedPlan, _ store: JobStore, _ patience: inout Patience
    ) throws -> Int {
        let reader = AudienceReader(
            audience: job.audience, folder: shared.settings.audienceFolder, store: store)
        let expected = try patiently(store, &patience) { try reader.count() }
        guard expected > 0 else {
            throw AudienceError(
                path: "$.audience",
                message:
                    "the audience (\(job.audience.summary)) is empty or does not exist; fill it "
                    + "and enqueue a job with a new id")
        }
        var builder = PlanBuilder(
            expected: expected, shardSize: shared.settings.shardSize, seed: shared.outside.random())
        let shards = builder.shards
        try patiently(store, &patience) { try store.clearPlan(plan, shards: shards) }
        var call = 0
        var filled: Set<Int> = []
        let token = UnsafeMutablePointer<UInt8>.allocate(capacity: DeviceToken.maximumBytes)
        defer { token.deallocate() }
        func flush(_ windows: [PlanBuilder.Window]) throws {
            var start = 0
            while start < windows.count {
                var end = start
                var bytes = 0
                while end < windows.count, end == start || bytes < Planner.callBytes {
                    bytes += windows[end].bytes.count
                    filled.insert(windows[end].shard)
                    end += 1
                }
                let part = Array(windows[start..<end])
                call += 1
                try patiently(store, &patience) { try store.writePlan(plan, call: call, part) }
                FailPoint.reached("in_plan")
                start = end
            }
        }
        try reader.read { text in
            if let count = DeviceToken.decode(text, into: token) {
                builder.add(token: UnsafeRawBufferPointer(start: token, count: count))
            } else {
                builder.add(invalid: text)
            }
        } turn: {
            if self.shared.isStopping { throw CancellationError() }
            try flush(builder.takeFull())
        }
        try flush(builder.takeRest())
        FailPoint.reached("before_plan_close")
        var first = 0
        while first < shards {
            let last = min(first + 63, shards - 1)
            try patiently(store, &patience) { try store.closePlan(plan, first: first, last: last) }
            first = last + 1
        }
        let (total, open) = (builder.total, filled.count)
        guard total > 0 else {
            throw AudienceError(
                path: "$.audience", message: "the audience became empty while it was read")
        }
        try patiently(store, &patience) {
            try store.finishPlan(plan, openShards: open, total: total)
        }
        FailPoint.reached("after_plan_finish")
        return total
    }

    /// How long a plan waits for Redis, and what the campaign says about it.
    private struct Patience {
        /// What a campaign says while its plan waits for memory.
        static let reason =
            "planning waits: Redis is out of memory; raise maxmemory or remove what is not needed"

        let plan: JobStore.ClaimedPlan
        var backoff: Backoff
        /// The campaign says that its plan waits.
        var isTold = false

        init(_ plan: JobStore.ClaimedPlan) {
            self.plan = plan
            backoff = Backoff("plan \(plan.campaign)")
        }

        /// Says once in the campaign that its plan waits for memory, and once that it goes on.
        mutating func tell(_ store: JobStore, waits: Bool) {
            guard waits != isTold else { return }
            do {
                try store.notePlan(plan, waiting: waits ? Patience.reason : nil)
                isTold = waits
            } catch {}  // the next step tries again, and the end of the plan clears it
        }
    }

    /// Repeats a step while Redis is in trouble; a stop ends it.
    private func patiently<Value>(
        _ store: JobStore, _ patience: inout Patience, _ body: () throws -> Value
    ) throws -> Value {
        while true {
            do {
                let value = try body()
                patience.backoff.succeeded(shared.log)
                patience.tell(store, waits: false)
                return value
            } catch let error as RedisError where error.isWaitedOut {
                if error.word == "OOM" { patience.tell(store, waits: true) }
                shared.outside.sleep(patience.backoff.failed(error, shared.log))
                if shared.isStopping { throw CancellationError() }
            }
        }
    }

    private func fail(
        _ plan: JobStore.ClaimedPlan, _ error: AudienceError, _ store: JobStore,
        _ patience: inout Patience
    ) {
        let letter = DeadLetter.make(
            job: plan.job, id: plan.campaign,
            faults: [JobFault(path: error.path, message: error.message)], worker: shared.id)
        shared.log.error(
            "campaign_failed", "\(error.path): \(error.message)",
            [("campaign", .text(plan.campaign))])
        _ = try? patiently(store, &patience) {
            try store.failPlan(plan, reason: "\(error.path): \(error.message)", letter: letter)
        }
    }
}
