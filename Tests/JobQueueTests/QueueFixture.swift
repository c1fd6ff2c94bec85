import Base
import JobQueue
import Redis
import TestKit
import Testing

@testable import Campaign

/// A Redis of its own with Peal's protocol on it, and short cuts to campaigns in every state.
final class QueueFixture {
    static let namespace = "t"

    let server: RedisServer
    let redis: RedisConnection
    let store: JobStore
    /// Makes Redis forget all scripts before each step.
    var forgetsScripts = false
    /// The worker's copy of the ledger is right, as it is unless Redis was rolled back.
    var knowsLedger = true

    init(appendOnly: Bool = false) throws {
        server = try RedisServer(appendOnly: appendOnly)
        redis = server.connection()
        store = JobStore(redis, namespace: Self.namespace)
    }

    @discardableResult
    func command(_ words: String...) throws -> RedisReply {
        try redis.command(words.map { Array($0.utf8) })
    }

    func forget() throws {
        if forgetsScripts { try command("SCRIPT", "FLUSH") }
    }

    /// Starts the server again on what its directory holds.
    func restart() throws {
        try server.restart()
        redis.close()
    }

    /// A field of one of Peal's hashes.
    func field(_ key: String, _ name: String) throws -> String? {
        try command("HGET", "t:\(key)", name).string
    }

    func list(_ key: String) throws -> [String] {
        (try command("LRANGE", "t:\(key)", "0", "-1").array ?? []).compactMap(\.string)
    }

    func ledger(_ campaign: String, _ shard: Int = 0) throws -> String {
        try command("GET", "t:campaign:\(campaign):shard:\(shard):ledger").string ?? ""
    }

    /// Enqueues a job, takes it and registers it.
    @discardableResult
    func register(
        _ id: String, fields: [String: String] = [:], digest: String = "d1", worker: String = "w"
    ) throws -> JobStore.Registration {
        try forget()
        let job = Array("job \(id) \(digest)".utf8)
        try store.enqueue(job)
        let taken = try store.takeJob(worker: worker, waiting: 1)
        #expect(taken == job)
        try forget()
        return try store.register(
            worker: worker, raw: job, id: id, digest: digest, fields: fields)
    }

    /// One window for each shard that has recipients.
    func windows(_ sizes: [Int]) -> [PlanBuilder.Window] {
        var result: [PlanBuilder.Window] = []
        var next: UInt64 = 0
        for (shard, size) in sizes.enumerated() where size > 0 {
            var writer = WindowWriter()
            for _ in 0..<size {
                withUnsafeBytes(of: next) { writer.append(token: $0) }
                next += 1
            }
            let (bytes, count) = writer.take()
            result.append(PlanBuilder.Window(shard: shard, count: count, bytes: bytes))
        }
        return result
    }

    /// A running campaign with shards of the given sizes.
    func campaign(_ id: String, _ sizes: [Int], fields: [String: String] = [:]) throws {
        #expect(try register(id, fields: fields) == .accepted)
        try forget()
        let plan = try #require(try store.claimPlan(worker: "w", plan: "plan-\(id)"))
        #expect(plan.campaign == id)
        try store.clearPlan(plan, shards: sizes.count)
        try forget()
        try store.writePlan(plan, call: 1, windows(sizes))
        try store.closePlan(plan, first: 0, last: sizes.count - 1)
        try forget()
        try store.finishPlan(
            plan, openShards: sizes.filter { $0 > 0 }.count, total: sizes.reduce(0, +))
    }

    func claim(
        _ nonce: String, worker: String = "w", excluding: [String] = []
    ) throws -> JobStore.ClaimedShard? {
        try forget()
        return try store.claim(worker: worker, nonce: nonce, excluding: excluding)
    }

    /// The claim under which shard 0 of a campaign is worked on.
    func claimed(_ campaign: String) throws -> Fence? {
        let shard = "campaign:\(campaign):shard:0"
        guard let plan = try field(shard, "plan"), let nonce = try field(shard, "nonce"),
            let epoch = try field(shard, "epoch").flatMap({ Int($0) })
        else { return nil }
        return Fence(campaign: campaign, shard: 0, plan: plan, epoch: epoch, nonce: nonce)
    }

    /// Applies one commit that Redis does not refuse.
    func commit(
        _ fence: Fence, _ number: Int, _ changes: [(Int, String)] = [],
        _ more: (inout Commit) -> Void = { _ in }
    ) throws -> CommitReply {
        try forget()
        var commit = Commit(fence: fence, number: number)
        let ledger = Array(try self.ledger(fence.campaign, fence.shard).utf8)
        commit.changes = changes.map { offset, text in
            let bytes = Array(text.utf8)
            var known = [UInt8](repeating: 0, count: bytes.count)
            if knowsLedger && offset + bytes.count <= ledger.count {
                known = Array(ledger[offset..<offset + bytes.count])
            }
            return Commit.Change(offset: offset, known: known, bytes: bytes)
        }
        more(&commit)
        let replies = try store.commit([commit])
        return try #require(replies.first).get()
    }

    /// Lets the lease of a shard or plan run out.
    func expire(_ member: String) throws { try command("ZADD", "t:leases", "1", member) }

    /// Makes parked shards ready that are due; with a rank it looks for times too far ahead, too.
    func unpark(from rank: Int? = nil) throws -> Int {
        var rank = rank
        return try store.unpark(checking: &rank)
    }

    /// Does all chores; the number of parts.
    @discardableResult
    func doChores() throws -> Int {
        try forget()
        var parts = 0
        while try store.doChore() { parts += 1 }
        return parts
    }

    /// What an audit finds wrong, in sentences.
    func differences(_ campaign: String) throws -> [String] {
        try forget()
        return try store.audit(campaign).differences
    }

    func classes(_ campaign: String) throws -> [RecipientClass: Int] {
        let report = try #require(try store.report(campaign))
        return report.classes.filter { $0.value != 0 }
    }
}
