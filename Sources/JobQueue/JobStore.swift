package import Campaign
package import Redis

/// Peal's protocol on one connection to Redis: the one place that knows the names of the keys.
///
/// Every call blocks until Redis answered or the deadline passed; one thread at a time.
package final class JobStore {
    /// A claimed shard or plan belongs to its worker for this long after the last renewal.
    package static let leaseMilliseconds = 15_000
    /// A worker whose last heartbeat is older than this is dead.
    package static let deadWorkerMilliseconds = 15_000

    package let redis: any RedisLink
    package let namespace: String
    /// How many replicas have to acknowledge a commit before it counts as answered.
    package var replicas = 0
    /// The Redis that was seen last.
    private var identity = ""

    package init(_ redis: any RedisLink, namespace: String) {
        self.redis = redis
        self.namespace = namespace
    }

    /// The full name of a key.
    package func key(_ name: String) -> String { "\(namespace):\(name)" }

    func run(_ script: RedisScript, _ arguments: [String]) throws(RedisError) -> RedisReply {
        try redis.run(script, keys: [bytes(namespace)], arguments: arguments.map { Array($0.utf8) })
    }

    func run(_ script: RedisScript, bytes arguments: [[UInt8]]) throws(RedisError) -> RedisReply {
        try redis.run(script, keys: [bytes(namespace)], arguments: arguments)
    }

    func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

    /// Looks whether the connection reaches another Redis than before, perhaps with older data, and
    /// makes that known; true then.
    ///
    /// Costs a call only after a reconnect.
    package func seesAnotherRedis() throws(RedisError) -> Bool {
        try redis.connect()
        guard redis.identity != identity else { return false }
        _ = try run(Scripts.incarnation, [redis.identity])
        defer { identity = redis.identity }
        return !identity.isEmpty
    }

    // MARK: Intake

    /// How taking a job over into a campaign ended.
    package enum Registration: String, Sendable { case accepted, duplicate, conflict, failed }

    /// Puts a job on the intake list, as a backend does.
    package func enqueue(_ job: [UInt8]) throws(RedisError) {
        try redis.command([bytes("LPUSH"), bytes(key("jobs")), job])
    }

    /// Moves the oldest job to this worker's list of taken jobs, waiting at most `seconds`.
    package func takeJob(worker: String, waiting seconds: Int) throws(RedisError) -> [UInt8]? {
        let command = [
            "BLMOVE", key("jobs"), key("claims:\(worker)"), "RIGHT", "LEFT", String(seconds),
        ]
        // The reply may take as long as the block, and then some.
        let limit = Int64(seconds) * 1_000_000_000 + RedisConnection.replyLimit
        return try redis.command(command.map { bytes($0) }, within: limit).bytes
    }

    /// The jobs this worker took and has not registered yet.
    package func takenJobs(worker: String) throws(RedisError) -> [[UInt8]] {
        let reply = try redis.command("LRANGE", key("claims:\(worker)"), "0", "63")
        return (reply.array ?? []).compactMap(\.bytes)
    }

    /// Whether this very job was registered before.
    package func knows(id: String, digest: String) throws(RedisError) -> Bool {
        try redis.command("HGET", key("campaign:\(id)"), "digest").string == digest
    }

    package func register(
        worker: String, raw: [UInt8], id: String, digest: String, fields: [String: String]
    ) throws(RedisError) -> Registration {
        var arguments = [bytes(worker), raw, bytes(id), bytes(digest)]
        for (name, value) in fields.sorted(by: { $0.key < $1.key }) {
            arguments += [bytes(name), bytes(value)]
        }
        let reply = try run(Scripts.register, bytes: arguments)
        return Registration(rawValue: reply.string ?? "") ?? .conflict
    }

    package func bury(worker: String, raw: [UInt8], letter: [UInt8]) throws(RedisError) {
        _ = try run(Scripts.dead, bytes: [bytes(worker), raw, letter])
    }

    // MARK: Shards

    /// A shard under a fresh claim.
    package struct ClaimedShard: Sendable {
        package let fence: Fence
        package let ledger: [UInt8]
        package let due: [UInt8]
        package let unknowns: [UInt8]
        package let nowMilliseconds: Int64
        /// Who was in flight when earlier owners died.
        package let suspects: [UInt8]
    }

    /// Claims one ready shard, or answers nil when there is none.
    ///
    /// - `nonce`: random for each claim; the same one again gets the same shard.
    /// - `excluded`: campaigns to pass over.
    package func claim(
        worker: String, nonce: String, excluding excluded: [String] = []
    ) throws(RedisError) -> ClaimedShard? {
        let list = excluded.isEmpty ? "" : "," + excluded.joined(separator: ",") + ","
        let reply = try run(
            Scripts.claim, [worker, nonce, String(JobStore.leaseMilliseconds), list])
        guard let items = reply.array, items.count == 10, items[0].string == "shard",
            let campaign = items[1].string, let shard = items[2].integer,
            let plan = items[3].string,
            let epoch = items[4].integer
        else { return nil }
        return ClaimedShard(
            fence: Fence(
                campaign: campaign, shard: Int(shard), plan: plan, epoch: Int(epoch), nonce: nonce),
            ledger: items[5].bytes ?? [], due: items[6].bytes ?? [], unknowns: items[7].bytes ?? [],
            nowMilliseconds: items[8].integer ?? 0, suspects: items[9].bytes ?? [])
    }

    /// All windows of a shard, read four at a time so that no reply holds Redis up.
    package func windows(campaign: String, shard: Int) throws(RedisError) -> [[UInt8]] {
        let list = key("campaign:\(campaign):shard:\(shard):recipients")
        var result: [[UInt8]] = []
        while true {
            let reply = try redis.command(
                "LRANGE", list, String(result.count), String(result.count + 3))
            let part = (reply.array ?? []).compactMap(\.bytes)
            result += part
            if part.count < 4 { return result }
        }
    }

    /// Applies commits in one round trip.
    ///
    /// A transient error stands for all of them: repeat. With `replicas`, too few acknowledgements
    /// are one.
    package func commit(_ commits: [Commit]) throws(RedisError) -> [Result<CommitReply, RedisError>]
    {
        let calls = commits.map { (Scripts.commit, [bytes(namespace)], arguments(of: $0)) }
        let replies = try confirmed(calls)
        return replies.map { reply in
            if case .error(let text) = reply {
                return .failure(RedisError(reply: text, to: "the script commit"))
            }
            guard let items = reply.array, items.count == 5,
                let status = CommitReply.Status(rawValue: items[0].string ?? "")
            else { return .failure(RedisError(.lost, "Redis gave an unknown answer to a commit")) }
            return .success(
                CommitReply(
                    status: status, campaignState: items[1].string ?? "",
                    nowMilliseconds: items[2].integer ?? 0, left: Int(items[3].integer ?? 0)))
        }
    }

    /// Takes a shard back after Redis lost the claim: the new fence, or nil when it is somebody
    /// else's.
    package func reassert(worker: String, _ fence: Fence) throws(RedisError) -> Fence? {
        let arguments = [
            fence.campaign, String(fence.shard), fence.plan, String(fence.epoch), fence.nonce,
            worker, String(JobStore.leaseMilliseconds),
        ].map { bytes($0) }
        let reply = try confirmed([(Scripts.reassert, [bytes(namespace)], arguments)])[0]
        if case .error(let text) = reply {
            throw RedisError(reply: text, to: "the script reassert")
        }
        guard let epoch = reply.integer, epoch > 0 else { return nil }
        var taken = fence
        taken.epoch = Int(epoch)
        return taken
    }

    private func arguments(of commit: Commit) -> [[UInt8]] {
        let fence = commit.fence
        var changes: [UInt8] = []
        for change in commit.changes {
            for number in [change.offset, change.bytes.count] {
                withUnsafeBytes(of: UInt32(number).littleEndian) { changes.append(contentsOf: $0) }
            }
            changes += change.known + change.bytes
        }
        let latency = commit.latency.map { "\($0.bucket)=\($0.count)" }.joined(separator: " ")
        let counters = commit.counters.sorted { $0.key < $1.key }
            .map { "\($0.key)=\($0.value)" }.joined(separator: " ")
        let finish =
            switch commit.finish {
            case .goOn: ""
            case .release: "release"
            case .park(let time, let length): "park:\(time):\(length)"
            }
        var arguments = [
            fence.campaign, String(fence.shard), fence.plan, String(fence.epoch), fence.nonce,
            String(commit.number), String(JobStore.leaseMilliseconds),
            commit.isReplay ? "replay" : "commit",
        ].map { bytes($0) }
        arguments += [changes, bytes(latency), bytes(counters), bytes(finish)]
        arguments += [commit.due, commit.unknowns]
        arguments += [
            bytes(String(commit.reasons.count * 2)), bytes(String(commit.deactivations.count)),
        ]
        for reason in commit.reasons {
            arguments += [bytes(String(reason.index)), bytes(reason.text)]
        }
        return arguments + commit.deactivations + commit.quarantined
    }
}
