internal import APNs
internal import APNsClient
internal import Base
internal import Campaign
internal import JobQueue
internal import Telemetry

/// The place that sends for the runs of one app.
///
/// Loop only.
protocol RunLane: AnyObject {
    var profile: AppProfile { get }
    /// A fresh provider token was refused, so that another one would not help.
    var isCredentialRefused: Bool { get }
    func add(_ number: Int, _ active: ActiveRun)
    func remove(_ number: Int)
    /// How many marks a run should have outstanding.
    func markTarget(of active: ActiveRun, settings: WorkerSettings) -> Int
    /// Notes an answer's time.
    func note(milliseconds: Int)
}

/// One claimed shard at work.
final class ActiveRun {
    var run: ShardRun
    /// Nil once the run ended.
    var recipients: RecipientTable?
    let campaign: CampaignContext
    let template: PushTemplate
    let lane: any RunLane

    init(
        run: ShardRun, recipients: RecipientTable, campaign: CampaignContext,
        template: PushTemplate, lane: any RunLane
    ) {
        self.run = run
        self.recipients = recipients
        self.campaign = campaign
        self.template = template
        self.lane = lane
    }
}

/// The shards of one worker: which to claim, what they ask of Redis and what its answers mean.
///
/// It decides and asks; it has no clock, socket or thread, so that a simulation can drive it. Loop
/// only.
///
/// 1. Keeps enough shards claimed, campaigns in turn.
/// 2. Makes the commits that are due.
/// 3. Turns outcomes into results, pauses a campaign when a breaker opens.
/// 4. Keeps what ended in the last seconds, to write it again when Redis lost it.
final class RunDesk {
    /// Pause between two claims while there was nothing to claim.
    static let claimPause = Nanoseconds.milliseconds(200)

    /// What the desk needs of its surroundings.
    struct Surroundings {
        var settings: WorkerSettings
        var log: Log
        /// The lane of an app, or nil for an app that this worker does not know.
        var lane: (String) -> (any RunLane)?
        /// Sends a request to the exchange.
        var ask: (ShardExchange.Request) -> Void
        /// A lease is to be renewed from now on, or not any more.
        var hold: (Fence, Bool) -> Void
        /// A random name for each claim.
        var nonce: () -> String
        /// The worker takes nothing new any more.
        var isStopping: () -> Bool
    }

    private(set) var runs: [Int: ActiveRun] = [:]
    /// The runs in the order in which they were taken, the same each time.
    private var ordered: [(key: Int, value: ActiveRun)] { runs.sorted { $0.key < $1.key } }
    private let around: Surroundings
    /// By plan, since the id of a campaign may be used again once it was removed.
    private var campaigns: [String: CampaignContext] = [:]
    private var nextRun = 0
    /// Runs that ended in the last seconds, to be written again when Redis lost their end.
    private var recentlyEnded: [(at: Instant, active: ActiveRun)] = []
    private var isClaiming = false
    private var nextClaim = Instant(nanoseconds: 0)
    private var isDraining = false
    private var random: SeededRandom

    init(_ around: Surroundings, seed: UInt64) {
        self.around = around
        random = SeededRandom(seed: seed)
    }

    /// Stops claiming and sending; runs end as their answers come in.
    func drain() {
        isDraining = true
        for active in runs.values { active.run.stop() }
    }

    // MARK: Claims

    /// Wakes claiming at once: a plan was finished or a shard became ready.
    func claimSoon(_ now: Instant) {
        nextClaim = now
        claim(now)
    }

    /// Asks for another shard where there is room for one.
    func claim(_ now: Instant) {
        guard !isDraining, !isClaiming, !around.isStopping(), now >= nextClaim else { return }
        let limit = around.settings.runLimit
        let busy = runs.values.count { $0.run.hasWork }
        guard busy < limit + WorkerSettings.extraRuns,
            runs.count < limit + WorkerSettings.extraRuns + WorkerSettings.waitingRuns
        else { return }
        var excluded: [String] = []
        if busy >= limit {
            // Full: only a campaign that has no shard here may still come in.
            excluded = Set(runs.values.map(\.campaign.id)).sorted()
        }
        isClaiming = true
        around.ask(.claim(nonce: around.nonce(), excluding: excluded))
    }

    private func claimed(_ claimed: ShardExchange.Claimed?, _ now: Instant) {
        isClaiming = false
        guard let claimed else {
            nextClaim = now + RunDesk.claimPause
            return
        }
        let shard = claimed.shard
        guard let lane = around.lane(claimed.job.app) else {
            around.hold(shard.fence, false)
            return
        }
        let campaign =
            campaigns[shard.fence.plan]
            ?? CampaignContext(
                job: claimed.job, topic: claimed.job.pushType.topic(bundleID: lane.profile.topic),
                environment: lane.profile.environment.rawValue)
        campaigns[shard.fence.plan] = campaign
        var run = ShardRun(
            fence: shard.fence, policy: campaign.policy, recipients: claimed.recipients.value,
            ledger: shard.ledger, due: shard.due, unknowns: shard.unknowns,
            suspects: shard.suspects, redisMilliseconds: shard.nowMilliseconds, now: now)
        if isDraining { run.stop() }
        let active = ActiveRun(
            run: run, recipients: claimed.recipients.value, campaign: campaign,
            template: campaign.template(nowMilliseconds: shard.nowMilliseconds), lane: lane)
        take(active)
        around.log.debug("shard_claimed", "work on it begins", fields(active))
        commit(nextRun, active, now)
        claim(now)
    }

    private func take(_ active: ActiveRun) {
        nextRun = (nextRun + 1) & 0x7FFF_FFFF
        runs[nextRun] = active
        active.lane.add(nextRun, active)
    }

    // MARK: Answers

    /// Runs of these leases are somebody else's now.
    ///
    /// The claims count, not the shards: one that was lost may have been claimed again since.
    func lost(_ holds: Set<JobStore.Hold>, _ now: Instant) {
        for (number, active) in ordered where holds.contains(.shard(active.run.fence)) {
            drop(number, active, "its lease went to another worker", now)
        }
    }

    /// Runs of these campaigns hand out nothing more and give their shards back.
    func stopped(_ campaigns: [String]) {
        for active in runs.values where campaigns.contains(active.campaign.id) {
            active.run.stop()
        }
    }

    /// Takes what the exchange brings.
    func handle(_ answers: [ShardExchange.Answer], _ now: Instant) {
        for answer in answers {
            switch answer {
            case .committed(let number, let reply): committed(number, reply, now)
            case .refused(let number, let why):
                around.log.error("commit_refused", why)
                if let active = runs[number] {
                    drop(number, active, "Redis refuses its commits", now)
                }
            case .claimed(let claimed): self.claimed(claimed, now)
            case .reasserted(let number, let fence): reasserted(number, fence, now)
            case .redisChanged: reopenEnded()
            }
        }
    }

    private func reasserted(_ number: Int, _ fence: Fence?, _ now: Instant) {
        guard let active = runs[number] else { return }
        guard let fence else {
            drop(number, active, "Redis lost the claim and another worker has the shard", now)
            return
        }
        around.hold(active.run.fence, false)
        around.hold(fence, true)
        active.run.reasserted(fence, now: now)
        repeatCommit(number, active)
    }

    private func repeatCommit(_ number: Int, _ active: ActiveRun) {
        guard let commit = active.run.commitToRepeat else { return }
        around.ask(.commit(run: number, commit))
    }

    /// Writes the runs again that ended in the last seconds: where Redis kept them, nothing
    /// changes.
    private func reopenEnded() {
        for (_, active) in recentlyEnded {
            guard let commit = active.run.reopen() else { continue }
            take(active)
            around.hold(active.run.fence, true)
            around.ask(.commit(run: nextRun, commit))
        }
        recentlyEnded.removeAll()
    }

    /// Makes the commits that are due.
    func commitDue(_ now: Instant) {
        for (number, active) in ordered { commit(number, active, now) }
    }

    /// How many marks a run may have outstanding.
    ///
    /// A recipient that ends workers would bring those of other runs under suspicion: while one run
    /// looks for it, the others give back what was not sent, and it waits for their answers.
    private func target(_ number: Int, _ active: ActiveRun) -> Int {
        var soloist: Int?
        for (other, active) in runs where active.run.needsSolitude {
            soloist = min(other, soloist ?? other)
        }
        if let soloist {
            let others = runs.contains { $0.key != number && $0.value.run.outstanding > 0 }
            guard soloist == number, !others else { return 0 }
        }
        return active.lane.markTarget(of: active, settings: around.settings)
    }

    private func commit(_ number: Int, _ active: ActiveRun, _ now: Instant) {
        let target = target(number, active)
        guard active.run.isCommitDue(now: now, target: target) else { return }
        around.ask(.commit(run: number, active.run.makeCommit(now: now, target: target)))
    }

    private func committed(_ number: Int, _ reply: CommitReply, _ now: Instant) {
        // Redis answers: what ended before its memory can be lost is forgotten.
        recentlyEnded.removeAll { now - $0.at > ShardRun.replayMemory }
        guard let active = runs[number] else { return }
        switch active.run.applied(reply, now: now) {
        case .goOn:
            if reply.campaignState == "running" { active.campaign.isPausing = false }
        case .finished:
            active.recipients = nil
            recentlyEnded.append((now, active))
            forget(number, active, now)
        case .reassert:
            around.ask(.reassert(run: number, active.run.fence))
        case .fenced:
            drop(number, active, "Redis says that the claim is not this worker's any more", now)
        case .replay:
            around.log.warning(
                "redis_rolled_back", "Redis lost confirmed commits; the shard is written again",
                fields(active))
            repeatCommit(number, active)
        }
    }

    private func drop(_ number: Int, _ active: ActiveRun, _ why: String, _ now: Instant) {
        around.log.warning(
            "shard_fenced", why,
            fields(active) + [("dropped_in_flight", .number(active.run.onWire))])
        forget(number, active, now)
    }

    private func forget(_ number: Int, _ active: ActiveRun, _ now: Instant) {
        runs[number] = nil
        active.lane.remove(number)
        around.hold(active.run.fence, false)
        if !runs.values.contains(where: { $0.campaign === active.campaign }) {
            campaigns[active.run.fence.plan] = nil
        }
        claim(now)
    }

    private func fields(_ active: ActiveRun) -> [(String, LogValue)] {
        [
            ("campaign", .text(active.campaign.id)), ("shard", .number(active.run.fence.shard)),
            ("epoch", .number(active.run.fence.epoch)),
        ]
    }

    // MARK: Outcomes

    /// Takes what became of one request.
    ///
    /// - `latency`: nanoseconds from sending to the answer.
    func ended(
        _ number: Int, _ index: Int, _ outcome: PushOutcome, latency: Int64, now: Instant
    ) {
        guard let active = runs[number], let recipients = active.recipients else { return }
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
        around.ask(.pause(campaign: campaign.id, reason: reason))
    }
}
