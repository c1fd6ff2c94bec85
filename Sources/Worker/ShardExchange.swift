internal import Base
internal import Campaign
internal import JobQueue
internal import Redis
internal import Telemetry

/// Claims shards and exchanges commits with Redis for the send loop, on a thread of its own.
///
/// 1. All commits that wait go out in one round trip; after trouble they are repeated unchanged
///    until they are answered.
/// 2. A claim brings the shard's recipients along, ready to send.
/// 3. Asks for a pause when a breaker opened.
final class ShardExchange: Sendable {
    /// Requests that may wait: one commit per run and a claim.
    static let mailboxLimit = 4096

    enum Request: Sendable {
        case commit(run: Int, Commit)
        /// Takes a shard back whose claim Redis lost.
        case reassert(run: Int, Fence)
        /// Claims a shard, passing over campaigns in the list. Repeated with the same nonce after
        /// trouble, it gets the same shard.
        case claim(nonce: String, excluding: [String])
        case pause(campaign: String, reason: String)

        var isClaim: Bool { if case .claim = self { true } else { false } }
    }

    enum Answer: Sendable {
        case committed(run: Int, CommitReply)
        /// Redis refused the commit for good: the run is dropped and recovered like a dead
        /// worker's.
        case refused(run: Int, String)
        case claimed(Claimed?)
        /// The shard is this worker's again under a new fence, or nil: somebody else's.
        case reasserted(run: Int, Fence?)
        /// Redis is another one than before and may have lost what it confirmed.
        case redisChanged
    }

    /// A claimed shard with all it needs.
    struct Claimed: Sendable {
        let shard: JobStore.ClaimedShard
        let recipients: Unshared<RecipientTable>
        let job: Job
    }

    let requests = Mailbox<Request>(limit: mailboxLimit)
    /// How long no shard of a campaign is claimed that this worker could not run.
    static let shunTime = Nanoseconds.seconds(60)

    private let shunned = Lock<[String: Instant]>([:])
    private let shared: WorkerShared
    private let answer: @Sendable ([Answer]) -> Void

    init(_ shared: WorkerShared, answer: @escaping @Sendable ([Answer]) -> Void) {
        self.shared = shared
        self.answer = answer
    }

    /// Runs until the mailbox is closed and empty.
    func run() {
        let store = shared.makeStore("exchange")
        var backoff = Backoff("exchange shards", shared.readiness)
        var jobs: [String: Job] = [:]
        var waiting: [Request] = []
        while true {
            waiting += requests.take(waitingAtMost: waiting.isEmpty ? Nanoseconds.seconds(1) : 0)
            if waiting.isEmpty {
                if requests.isClosed { return }
                continue
            }
            do throws(RedisError) {
                try serve(&waiting, store, &jobs)
                backoff.succeeded(shared.log)
            } catch {
                guard error.isWaitedOut else {
                    shared.fail("exchanging shards", error)
                    return
                }
                Thread.sleep(nanoseconds: backoff.failed(error, shared.log))
                if requests.isClosed { return }  // the drain ran out of time
            }
        }
    }

    /// Serves the waiting requests; what is served leaves the list.
    ///
    /// - `jobs`: the jobs of campaigns that were claimed from, by plan: the id of a campaign may be
    ///   used again once it was removed.
    func serve(
        _ waiting: inout [Request], _ store: JobStore, _ jobs: inout [String: Job]
    ) throws(RedisError) {
        if try store.seesAnotherRedis() {
            shared.log.warning(
                "redis_changed",
                "Redis was restarted or replaced; nobody claims for 3 s while owners return")
            answer([.redisChanged])
        }
        // A pause first: a shard that is given back for it must not be claimed again meanwhile.
        for case .pause(let campaign, let reason) in waiting {
            _ = try store.control(campaign: campaign, .pause, reason: reason)
            shared.log.error("campaign_paused", reason, [("campaign", .text(campaign))])
        }
        waiting.removeAll { if case .pause = $0 { true } else { false } }
        var commits: [(run: Int, commit: Commit)] = []
        for case .commit(let run, let commit) in waiting { commits.append((run, commit)) }
        if !commits.isEmpty {
            FailPoint.reached(
                "before_commit", if: commits.contains { !$0.commit.latency.isEmpty })
            let replies = try store.commit(commits.map(\.commit))
            var answers: [Answer] = []
            var repeated: [Request] = []
            var trouble: RedisError?
            for ((run, commit), reply) in zip(commits, replies) {
                switch reply {
                case .success(let reply): answers.append(.committed(run: run, reply))
                case .failure(let error) where error.isWaitedOut:
                    repeated.append(.commit(run: run, commit))
                    trouble = error
                case .failure(let error):
                    answers.append(.refused(run: run, error.description))
                }
            }
            FailPoint.reached("after_commit")
            waiting = waiting.filter { if case .commit = $0 { false } else { true } } + repeated
            answer(answers)
            if let trouble { throw trouble }
        }
        // Claims come last: shards that are taken back must not be handed out.
        waiting.sort { !$0.isClaim && $1.isClaim }
        while let request = waiting.first {
            switch request {
            case .claim(let nonce, let excluded):
                answer([.claimed(try claim(store, nonce, excluded, &jobs))])
            case .reassert(let run, let fence):
                let taken = try store.reassert(worker: shared.id, fence)
                answer([.reasserted(run: run, taken)])
            case .commit, .pause: return
            }
            waiting.removeFirst()
        }
    }

    private func claim(
        _ store: JobStore, _ nonce: String, _ excluded: [String], _ jobs: inout [String: Job]
    ) throws(RedisError) -> Claimed? {
        let now = shared.outside.now()
        let refused = shunned.withLock { shunned in
            shunned = shunned.filter { now - $0.value < ShardExchange.shunTime }
            return shunned.keys.sorted()
        }
        FailPoint.reached("before_claim")
        guard !shared.isStopping,
            let shard = try store.claim(
                worker: shared.id, nonce: nonce, excluding: excluded + refused)
        else { return nil }
        FailPoint.reached("after_claim")
        // Renewed from now on: reading the recipients may take a while.
        shared.hold(.shard(shard.fence))
        do throws(RedisError) { return try load(shard, store, &jobs) } catch {
            // Asked again, the claim may be lost and another shard come: nobody would work on this
            // one and its lease would never end.
            shared.hold(.shard(shard.fence), false)
            throw error
        }
    }

    /// Brings along what a claimed shard needs.
    private func load(
        _ shard: JobStore.ClaimedShard, _ store: JobStore, _ jobs: inout [String: Job]
    ) throws(RedisError) -> Claimed? {
        let (campaign, plan) = (shard.fence.campaign, shard.fence.plan)
        if jobs[plan] == nil {
            if jobs.count >= 64 { jobs.removeAll() }
            let raw = try store.job(campaign) ?? []
            guard case .success((let job, _)) = shared.read(raw, isAccepted: true) else {
                return try giveBack(
                    shard, store, "this worker cannot run the job: compare its apps file")
            }
            jobs[plan] = job
        }
        let windows = try store.windows(campaign: campaign, shard: shard.fence.shard)
        guard let job = jobs[plan], let table = RecipientTable(windows: windows),
            table.count == shard.ledger.count
        else {
            return try giveBack(shard, store, "recipients and ledger of the shard do not match")
        }
        return Claimed(shard: shard, recipients: Unshared(table), job: job)
    }

    /// Gives a shard back that this worker cannot work on and shuns its campaign for a while.
    private func giveBack(
        _ shard: JobStore.ClaimedShard, _ store: JobStore, _ why: String
    ) throws(RedisError) -> Claimed? {
        var commit = Commit(fence: shard.fence, number: 1)
        commit.finish = .release
        commit.due = shard.due
        let reply = try store.commit([commit]).first
        shared.hold(.shard(shard.fence), false)
        // Redis lost the claim, so that what it answered since belongs to another time.
        if case .success(let reply)? = reply, reply.status != .ok { return nil }
        shunned.withLock { $0[shard.fence.campaign] = shared.outside.now() }
        shared.log.error(
            "shard_unusable", why,
            [("campaign", .text(shard.fence.campaign)), ("shard", .number(shard.fence.shard))])
        return nil
    }
}

/// Hands an object that is not Sendable from one thread to another, which then owns it alone.
struct Unshared<Value>: @unchecked Sendable {
    let value: Value
    init(_ value: Value) { self.value = value }
}
