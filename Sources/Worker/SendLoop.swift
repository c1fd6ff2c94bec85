internal import APNs
internal import APNsClient
internal import Base
internal import Campaign
internal import EventLoop
internal import JobQueue
internal import TLS
internal import Telemetry

/// One claimed shard on the loop.
final class ActiveRun {
    var run: ShardRun
    /// Nil once the run ended.
    var recipients: RecipientTable?
    let campaign: CampaignContext
    let template: PushTemplate
    let lane: AppLane

    init(
        run: ShardRun, recipients: RecipientTable, campaign: CampaignContext,
        template: PushTemplate, lane: AppLane
    ) {
        self.run = run
        self.recipients = recipients
        self.campaign = campaign
        self.template = template
        self.lane = lane
    }
}

/// The send loop of a worker: owns the pools, the shard runs and their campaigns.
///
/// Loop only.
///
/// 1. Keeps enough shards claimed, campaigns in turn.
/// 2. Each tick lets the pools take notifications from the runs and makes the commits that are due.
/// 3. Turns outcomes into results, pauses a campaign when a breaker opens.
/// 4. Drains: hands out nothing more, waits for answers, commits and gives shards back.
final class SendLoop: @unchecked Sendable {
    /// Pause between two claims while there was nothing to claim.
    static let claimPause = Nanoseconds.milliseconds(200)

    let loop: EventLoop
    private let shared: WorkerShared
    private let context: TLSContext
    private var exchange: ShardExchange?
    private var lanes: [String: AppLane] = [:]
    private var campaigns: [String: CampaignContext] = [:]
    private var runs: [Int: ActiveRun] = [:]
    private var nextRun = 0
    /// Runs that ended in the last seconds, to be written again when Redis lost their end.
    private var recentlyEnded: [(at: Instant, active: ActiveRun)] = []
    private var isClaiming = false
    private var nextClaim = Instant(nanoseconds: 0)
    private var isDraining = false
    private var random: SeededRandom
    /// What other threads read; written at most every 200 ms.
    let status = Lock(LoopStatus())

    init(_ shared: WorkerShared, loop: EventLoop, context: TLSContext, seed: UInt64) {
        self.shared = shared
        self.loop = loop
        self.context = context
        random = SeededRandom(seed: seed)
    }

    /// Begins to claim and send.
    func start(_ exchange: ShardExchange) {
        self.exchange = exchange
        loop.tickHandler = { [unowned self] in tick() }
        beat()
    }

    /// Stops claiming and sending; runs end as their answers come in.
    func drain() {
        isDraining = true
        for active in runs.values { active.run.stop() }
        for lane in lanes.values { lane.pool.stop() }
        tick()
    }

    /// Ends all connections; what was not answered stays in flight for the recovery.
    func close() {
        for lane in lanes.values { lane.pool.closeAll() }
        tick()
    }

    /// Wakes claiming at once: a plan was finished or a shard became ready.
    func claimSoon() {
        nextClaim = loop.now
        claim()
    }

    /// Runs of these leases are somebody else's now.
    func lost(_ members: Set<String>) {
        for (number, active) in runs
        where members.contains(JobStore.Hold.shard(active.run.fence).member) {
            drop(number, active, "its lease went to another worker")
        }
    }

    // MARK: Turns

    /// The slow turn while nothing is sent, and the upkeep while something is.
    private func beat() {
        if !loop.isTicking { tick() }
        claim()
        publish()
        loop.schedule(after: Nanoseconds.milliseconds(100)) { [unowned self] in beat() }
    }

    private func tick() {
        let now = loop.now
        for lane in lanes.values { lane.pool.tick(now: now) }
        for (number, active) in runs { commit(number, active, now) }
        loop.isTicking = !runs.isEmpty
    }

    private func commit(_ number: Int, _ active: ActiveRun, _ now: Instant) {
        let target = active.lane.markTarget(of: active, settings: shared.settings)
        guard active.run.isCommitDue(now: now, target: target) else { return }
        exchange?.requests.add(
            .commit(run: number, active.run.makeCommit(now: now, target: target)))
    }

    // MARK: Claims

    private func claim() {
        guard !isDraining, !isClaiming, !shared.isStopping, loop.now >= nextClaim else { return }
        let limit = shared.settings.runLimit
        let busy = runs.values.count { $0.run.hasWork }
        guard busy < limit + WorkerSettings.extraRuns,
            runs.count < limit + WorkerSettings.extraRuns + WorkerSettings.waitingRuns
        else { return }
        var excluded: [String] = []
        if busy >= limit {
            // Full: only a campaign that has no shard here may still come in.
            excluded = Array(Set(runs.values.map(\.campaign.id)))
        }
        isClaiming = true
        exchange?.requests.add(.claim(nonce: WorkerID.nonce(), excluding: excluded))
    }

    /// Takes what the exchange brings.
    func handle(_ answers: [ShardExchange.Answer]) {
        for answer in answers {
            switch answer {
            case .committed(let number, let reply): committed(number, reply)
            case .refused(let number, let why):
                shared.log.error("commit_refused", why)
                if let active = runs[number] { drop(number, active, "Redis refuses its commits") }
            case .claimed(let claimed): self.claimed(claimed)
            case .reasserted(let number, let fence): reasserted(number, fence)
            case .redisChanged: reopenEnded()
            }
        }
    }

    private func reasserted(_ number: Int, _ fence: Fence?) {
        guard let active = runs[number] else { return }
        guard let fence else {
            drop(number, active, "Redis lost the claim and another worker has the shard")
            return
        }
        hold(active.run.fence, false)
        hold(fence, true)
        active.run.reasserted(fence, now: loop.now)
        if let commit = active.run.commitToRepeat {
            exchange?.requests.add(.commit(run: number, commit))
        }
    }

    /// Writes the runs again that ended in the last seconds: where Redis kept them, nothing
    /// changes.
    private func reopenEnded() {
        for (_, active) in recentlyEnded {
            guard let commit = active.run.reopen() else { continue }
            nextRun = (nextRun + 1) & 0x7FFF_FFFF
            runs[nextRun] = active
            active.lane.add(nextRun, active)
            hold(active.run.fence, true)
            exchange?.requests.add(.commit(run: nextRun, commit))
        }
        recentlyEnded.removeAll()
    }

    private func hold(_ fence: Fence, _ isHeld: Bool) {
        shared.holds.withLock { holds in
            if isHeld { holds.insert(.shard(fence)) } else { holds.remove(.shard(fence)) }
        }
    }

    private func claimed(_ claimed: ShardExchange.Claimed?) {
        isClaiming = false
        guard let claimed else {
            nextClaim = loop.now + SendLoop.claimPause
            return
        }
        guard let lane = lane(claimed.job.app) else {
            shared.holds.withLock { _ = $0.remove(.shard(claimed.shard.fence)) }
            return
        }
        let campaign =
            campaigns[claimed.job.id]
            ?? CampaignContext(
                job: claimed.job, topic: claimed.job.pushType.topic(bundleID: lane.profile.topic),
                environment: lane.profile.environment.rawValue)
        campaigns[claimed.job.id] = campaign
        let shard = claimed.shard
        var run = ShardRun(
            fence: shard.fence, policy: campaign.policy, recipients: claimed.recipients.value,
            ledger: shard.ledger, due: shard.due, unknowns: shard.unknowns,
            redisMilliseconds: shard.nowMilliseconds, now: loop.now)
        if isDraining { run.stop() }
        let active = ActiveRun(
            run: run, recipients: claimed.recipients.value, campaign: campaign,
            template: campaign.template(nowMilliseconds: shard.nowMilliseconds), lane: lane)
        nextRun = (nextRun + 1) & 0x7FFF_FFFF
        runs[nextRun] = active
        lane.add(nextRun, active)
        shared.log.debug(
            "shard_claimed", "work on it begins",
            [
                ("campaign", .text(campaign.id)), ("shard", .number(shard.fence.shard)),
                ("epoch", .number(shard.fence.epoch)),
            ])
        loop.isTicking = true
        commit(nextRun, active, loop.now)
        claim()
    }

    // MARK: Commits

    private func committed(_ number: Int, _ reply: CommitReply) {
        // Redis answers: what ended before its memory can be lost is forgotten.
        recentlyEnded.removeAll { loop.now - $0.at > ShardRun.replayMemory }
        guard let active = runs[number] else { return }
        switch active.run.applied(reply, now: loop.now) {
        case .goOn:
            if reply.campaignState == "running" { active.campaign.isPausing = false }
        case .finished:
            active.recipients = nil
            recentlyEnded.append((loop.now, active))
            forget(number, active)
        case .reassert:
            exchange?.requests.add(.reassert(run: number, active.run.fence))
        case .fenced:
            drop(number, active, "Redis says that the claim is not this worker's any more")
        case .replay:
            shared.log.warning(
                "redis_rolled_back", "Redis lost confirmed commits; the shard is written again",
                [
                    ("campaign", .text(active.campaign.id)),
                    ("shard", .number(active.run.fence.shard)),
                ])
            if let commit = active.run.commitToRepeat {
                exchange?.requests.add(.commit(run: number, commit))
            }
        }
    }

    private func drop(_ number: Int, _ active: ActiveRun, _ why: String) {
        shared.log.warning(
            "shard_fenced", why,
            [
                ("campaign", .text(active.campaign.id)), ("shard", .number(active.run.fence.shard)),
                ("dropped_in_flight", .number(active.run.onWire)),
            ])
        forget(number, active)
    }

    private func forget(_ number: Int, _ active: ActiveRun) {
        runs[number] = nil
        active.lane.remove(number)
        hold(active.run.fence, false)
        if !runs.values.contains(where: { $0.campaign === active.campaign }) {
            campaigns[active.campaign.id] = nil
        }
        claim()
    }

    // MARK: Pushes

    private func lane(_ app: String) -> AppLane? {
        if let lane = lanes[app] { return lane }
        guard let profile = shared.apps[app] else { return nil }
        let lane = AppLane(
            app: app, profile: profile, shared: shared, context: context, loop: loop,
            seed: random.next()
        ) { [unowned self] number, index, outcome, latency in
            ended(number, index, outcome, latency)
        }
        lanes[app] = lane
        lane.pool.start()
        return lane
    }

    private func ended(_ number: Int, _ index: Int, _ outcome: PushOutcome, _ latency: Int64) {
        guard let active = runs[number], let recipients = active.recipients else { return }
        let now = loop.now
        let milliseconds: Int?
        switch outcome {
        case .accepted, .answered: milliseconds = Int(latency / 1_000_000)
        case .notProcessed, .unknown: milliseconds = nil
        }
        if let milliseconds { active.lane.note(milliseconds: milliseconds) }
        if case .accepted = outcome {
            // The common case, without any allocation.
            _ = active.campaign.tally.note(isTokenFault: false)
            active.run.record(index, .accepted, latencyMilliseconds: milliseconds, now: now)
            return
        }
        let reaction = Reactions.react(
            to: outcome, token: recipients.content(index), tries: active.run.tries(index),
            campaign: active.campaign, isCredentialRefused: active.lane.isCredentialRefused,
            random: random.fraction(),
            nowMilliseconds: active.run.redisMilliseconds(now))
        active.run.record(index, reaction.result, latencyMilliseconds: milliseconds, now: now)
        if let reason = reaction.pause { pause(active.campaign, reason) }
    }

    private func pause(_ campaign: CampaignContext, _ reason: String) {
        guard !campaign.isPausing else { return }
        campaign.isPausing = true
        for active in runs.values where active.campaign === campaign { active.run.stop() }
        exchange?.requests.add(.pause(campaign: campaign.id, reason: reason))
    }

    private func publish() {
        var fresh = LoopStatus()
        fresh.runs = runs.count
        for lane in lanes.values {
            fresh.connections += lane.pool.openConnections
            fresh.inFlight += lane.pool.inFlight
            fresh.answers += lane.answers
            if let failure = lane.pool.lastFailure { fresh.failure = failure }
        }
        status.withLock { $0 = fresh }
    }
}

/// What dashboards and the main thread see of the loop.
struct LoopStatus: Sendable {
    var runs = 0
    var connections = 0
    var inFlight = 0
    var answers = 0
    var failure = ""
}
