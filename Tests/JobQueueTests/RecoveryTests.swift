import Campaign
import JobQueue
import Redis
import TestKit
import Testing

@Suite("Recovery and audit", .timeLimit(.minutes(1)))
struct RecoveryTests {
    /// A claimed shard with this ledger, whose lease has run out.
    static func abandoned(
        _ ledger: String, fields: [String: String], unknowns: [UInt8] = []
    ) throws -> (queue: QueueFixture, fence: Fence) {
        let queue = try QueueFixture()
        try queue.campaign("a", [ledger.utf8.count], fields: fields)
        let shard = try #require(try queue.claim("n1"))
        let reply = try queue.commit(shard.fence, 1, [(0, ledger)]) { $0.unknowns = unknowns }
        #expect(reply.status == .ok)
        try queue.expire("a:0")
        return (queue, shard.fence)
    }

    @Test("under resend what was in flight counts one more try and is sent once more")
    func resend() throws {
        let (queue, fence) = try Self.abandoned(
            ".>A1aEI>", fields: ["on_unknown": "resend", "max_tries": "5"],
            unknowns: [7, 0, 0, 0])
        let lease = try #require(try queue.store.expired().leases.first)
        #expect(try queue.store.reclaim(lease) == .shard(resent: 2, unknown: 3))
        #expect(try queue.ledger("a") == ".121auuu")
        #expect(try queue.commit(fence, 2, [(0, "a")]).status == .fenced)
        #expect(try queue.differences("a") == [])
        #expect(try queue.field("campaign:a:shard:0:reasons", "7") == "WorkerLost")
        #expect(try queue.store.report("a")?.reasons == ["WorkerLost": 3])
        #expect(try queue.field("campaign:a:shard:0", "crashes") == "1")
        let next = try #require(try queue.claim("n2"))
        #expect(next.fence.epoch == fence.epoch + 2)
        #expect(DueRecords.readIndexes(next.unknowns) == [1, 2, 7])
        // Marked again and lost again: the budget of one unknown outcome is spent.
        _ = try queue.commit(next.fence, 1, [(1, "A")])
        try queue.expire("a:0")
        let second = try #require(try queue.store.expired().leases.first)
        #expect(try queue.store.reclaim(second) == .shard(resent: 0, unknown: 1))
        #expect(try queue.ledger("a") == ".u21auuu")
        #expect(try queue.differences("a") == [])
    }

    @Test("under skip all that was in flight ends as unknown, and the campaign may end with it")
    func skip() throws {
        let (queue, _) = try Self.abandoned("a>AI", fields: ["on_unknown": "skip"])
        let lease = try #require(try queue.store.expired().leases.first)
        #expect(try queue.store.reclaim(lease) == .shard(resent: 0, unknown: 3))
        #expect(try queue.ledger("a") == "auuu")
        #expect(try queue.store.report("a")?.state == "completed")
        #expect(try queue.differences("a") == [])
        #expect(try queue.store.idle().leases == 0)
    }

    @Test("a shard whose owner showed a sign of life between the two looks is kept")
    func twoLooks() throws {
        let (queue, fence) = try Self.abandoned(">.", fields: [:])
        let lease = try #require(try queue.store.expired().leases.first)
        #expect(try queue.commit(fence, 2, [(0, "a")]).status == .ok)
        #expect(try queue.store.reclaim(lease) == .kept)
        // Expired again, but the revision is another one: the first look counts anew.
        try queue.expire("a:0")
        #expect(try queue.store.reclaim(lease) == .kept)
        let fresh = try #require(try queue.store.expired().leases.first)
        #expect(fresh != lease)
        #expect(try queue.store.reclaim(fresh) == .shard(resent: 0, unknown: 0))
        #expect(try queue.store.reclaim(fresh) == .kept)
        #expect(try queue.ledger("a") == "a.")
    }

    @Test("a lease that lies too far ahead is pulled in")
    func farAhead() throws {
        let (queue, _) = try Self.abandoned(">", fields: [:])
        let far = Int64(8_000_000_000_000)
        try queue.command("ZADD", "t:leases", String(far), "a:0")
        #expect(try queue.store.expired().leases == [])
        let score = try #require(try queue.command("ZSCORE", "t:leases", "a:0").integer)
        #expect(score < far)
    }

    @Test("a worker's plan is taken back when its lease has run out")
    func plan() throws {
        let queue = try QueueFixture()
        try queue.register("a")
        _ = try queue.store.claimPlan(worker: "w", plan: "p1")
        #expect(try queue.store.expired().leases == [])
        try queue.expire("a:plan")
        let lease = try #require(try queue.store.expired().leases.first)
        #expect(try queue.store.reclaim(lease) == .plan)
        #expect(try queue.store.reclaim(lease) == .kept)
        #expect(try queue.list("plans") == ["a"])
    }

    @Test("an audit is clean at every moment and finds a planted difference of either kind")
    func audit() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [3, 2])
        let shard = try #require(try queue.claim("n"))
        _ = try queue.commit(shard.fence, 1, [(0, "a>")])
        #expect(try queue.differences("a") == [])
        try queue.command("HINCRBY", "t:campaign:a:stats", "accepted", "1")
        let counter = try queue.differences("a")
        #expect(counter.count == 1)
        #expect(counter.first?.hasPrefix("accepted") == true)
        try queue.command("HINCRBY", "t:campaign:a:stats", "accepted", "-1")
        #expect(try queue.differences("a") == [])
        try queue.command("SETRANGE", "t:campaign:a:shard:0:ledger", "2", "u")
        #expect(try queue.differences("a").first?.hasPrefix("shard 0") == true)
        try queue.command("SETRANGE", "t:campaign:a:shard:0:ledger", "2", "?")
        #expect(try queue.differences("a").first?.contains("unreadable") == true)
        try queue.command("SETRANGE", "t:campaign:a:shard:0:ledger", "2", ".")
        #expect(try queue.differences("a") == [])
        try queue.command("HSET", "t:campaign:a", "open_shards", "1", "total", "6")
        #expect(try queue.differences("a").count == 2)
        #expect(try queue.store.audit("none").shards == 0)
    }

    @Test("an audit gives a shard back that says it runs but holds no lease")
    func repair() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [1])
        _ = try queue.claim("n")
        try queue.command("DEL", "t:leases")
        #expect(try queue.store.audit("a").repaired == 1)
        #expect(try queue.store.audit("a").repaired == 0)
        let lease = try #require(try queue.store.expired().leases.first)
        #expect(try queue.store.reclaim(lease) == .shard(resent: 0, unknown: 0))
        #expect(try queue.claim("n2") != nil)
    }

    @Test("a whole campaign goes through although Redis forgets its scripts before each step")
    func scriptFlush() throws {
        let queue = try QueueFixture()
        queue.forgetsScripts = true
        try queue.campaign("a", [2, 1])
        let first = try #require(try queue.claim("n1"))
        _ = try queue.commit(first.fence, 1, [(0, ">")])
        try queue.expire("a:\(first.fence.shard)")
        try queue.forget()
        let lease = try #require(try queue.store.expired().leases.first)
        try queue.forget()
        #expect(try queue.store.reclaim(lease) == .shard(resent: 1, unknown: 0))
        for nonce in ["n2", "n3"] {
            let shard = try #require(try queue.claim(nonce))
            let all = String(repeating: "a", count: shard.ledger.count)
            #expect(try queue.commit(shard.fence, 1, [(0, all)]).status == .done)
        }
        #expect(try queue.store.report("a")?.state == "completed")
        #expect(try queue.differences("a") == [])
    }

    @Test("out of memory, planning is refused as a whole while claims and commits go on")
    func outOfMemory() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [2])
        try queue.register("b")
        let plan = try #require(try queue.store.claimPlan(worker: "w", plan: "p"))
        try queue.store.clearPlan(plan, shards: 1)
        try queue.command("CONFIG", "SET", "maxmemory", "1")
        let windows = queue.windows([1])
        let refusal = #expect(throws: RedisError.self) {
            try queue.store.writePlan(plan, call: 1, windows)
        }
        #expect(refusal?.word == "OOM")
        #expect(refusal?.isTransient == true)
        #expect(try queue.command("EXISTS", "t:campaign:b:shard:0:recipients").integer == 0)
        let shard = try #require(try queue.claim("n"))
        #expect(try queue.commit(shard.fence, 1, [(0, ">>")]).status == .ok)
        #expect(
            try queue.store.heartbeat(worker: "w", fields: ["a": "b"], holds: [.shard(shard.fence)])
                == [])
        #expect(try queue.store.control(campaign: "a", .pause, reason: "r") == "paused")
        let reply = try queue.commit(shard.fence, 2, [(0, "ag")]) {
            $0.deactivations = [[1]]
            $0.reasons = [(1, "Unregistered")]
        }
        #expect(reply.status == .done)
        try queue.command("CONFIG", "SET", "maxmemory", "0")
        try queue.store.writePlan(plan, call: 1, windows)
        #expect(try queue.differences("a") == [])
    }
}
