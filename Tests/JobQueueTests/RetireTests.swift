import Campaign
import JobQueue
import Redis
import TestKit
import Testing

@Suite("Removing campaigns that are over", .timeLimit(.minutes(1)))
struct RetireTests {
    /// A day; what ends in these tests is younger unless `age` made it older.
    static let kept: Int64 = 86_400_000

    private func cleanUp(_ queue: QueueFixture, pause: Int = 0) throws -> JobStore.CleanUp {
        try queue.forget()
        return try queue.store.cleanUp(keptMilliseconds: Self.kept, pause: pause)
    }

    /// A campaign that is over, with everything that a shard can have.
    private func completed(_ queue: QueueFixture, _ id: String, _ shards: Int) throws -> Fence {
        try queue.campaign(id, Array(repeating: 2, count: shards))
        var last: Fence?
        for number in 0..<shards {
            let shard = try #require(try queue.claim("\(id)-\(number)", excluding: ["a.b"]))
            let reply = try queue.commit(shard.fence, 1, [(0, "ag")]) {
                $0.reasons = [(index: 1, text: "Unregistered")]
            }
            #expect(reply.status == .done)
            last = shard.fence
        }
        // What has nothing to claim leaves the ring.
        #expect(try queue.claim("\(id)-none", excluding: ["a.b"]) == nil)
        return try #require(last)
    }

    /// Lets the end of a campaign lie as long ago as possible.
    private func age(_ queue: QueueFixture, _ id: String) throws {
        try queue.command("ZADD", "t:finished", "1", id)
        try queue.command("HSET", "t:campaign:\(id)", "finished_ms", "1")
    }

    /// Every key with its content, but for those of a campaign and those that grow by themselves.
    private func everything(
        _ queue: QueueFixture, butFor campaign: String
    ) throws -> [String: RedisReply] {
        var found: [String: RedisReply] = [:]
        let keys = (try queue.command("KEYS", "*").array ?? []).compactMap(\.string)
        for key in keys
        where key != "t:campaign:\(campaign)" && !key.hasPrefix("t:campaign:\(campaign):") {
            found[key] = try queue.command("DUMP", key)
        }
        return found
    }

    @Test("takes slices of at most 64 keys, and nothing of other campaigns")
    func slices() throws {
        let queue = try QueueFixture()
        queue.forgetsScripts = true
        try queue.campaign("a.b", [2, 1])
        _ = try queue.claim("running")
        _ = try completed(queue, "a1", 3)
        _ = try completed(queue, "a", 70)
        let before = try everything(queue, butFor: "a")
        #expect(try cleanUp(queue) == .none)
        try age(queue, "a")
        let own = try queue.command("KEYS", "t:campaign:a:*").array?.count ?? 0
        #expect(own > 210)
        var parts = 0
        while true {
            let size = try #require(try queue.command("DBSIZE").integer)
            let result = try cleanUp(queue)
            let removed = try size - #require(try queue.command("DBSIZE").integer)
            #expect(removed <= 64)
            if result == .gone("a") { break }
            #expect(result == .part("a"))
            #expect(try queue.store.report("a")?.state == "retiring")
            #expect(try !queue.store.campaigns().contains("a"))
            #expect(try queue.differences("a") == [])
            parts += 1
        }
        #expect(parts >= 7)
        #expect(try queue.command("KEYS", "t:campaign:a:*").array?.count == 0)
        #expect(try queue.store.report("a") == nil)
        #expect(try cleanUp(queue) == .none)
        let after = try everything(queue, butFor: "a")
        let changed = Set(before.keys).union(after.keys).filter { before[$0] != after[$0] }
        #expect(Set(changed) == ["t:campaigns", "t:finished"])
        #expect(try queue.store.campaigns() == ["a.b", "a1"])
        let ended = try queue.command("ZRANGE", "t:finished", "0", "-1").array ?? []
        #expect(ended.map(\.string) == ["a1"])
    }

    @Test("a late commit answers gone from the first slice on, and its id is free after the last")
    func late() throws {
        let queue = try QueueFixture()
        let fence = try completed(queue, "a", 20)
        #expect(try queue.commit(fence, 1, [(0, "ag")]).status == .done)
        try age(queue, "a")
        #expect(try cleanUp(queue) == .part("a"))
        #expect(try queue.commit(fence, 1).status == .gone)
        #expect(try queue.store.reassert(worker: "w", fence) == nil)
        #expect(try queue.register("a") == .duplicate)
        #expect(try queue.store.control(campaign: "a", .cancel, reason: "late") == "retiring")
        while try cleanUp(queue) != .gone("a") {}
        #expect(try queue.commit(fence, 1).status == .gone)
        #expect(try queue.store.reassert(worker: "w", fence) == nil)
        #expect(try queue.command("KEYS", "t:campaign:*").array?.count == 0)
        // The same id is another campaign now: the old owner has no part in it.
        try queue.campaign("a", [1])
        #expect(try queue.store.reassert(worker: "w", fence) == nil)
        let shard = try #require(try queue.claim("new"))
        #expect(try queue.commit(fence, 1, [(0, "a")]).status != .ok)
        #expect(try queue.ledger("a") == ".")
        #expect(try queue.commit(shard.fence, 1, [(0, "a")]).status == .done)
        #expect(try queue.differences("a") == [])
    }

    @Test(
        "whatever its end was, nothing of it is left",
        arguments: [
            "cancelled", "cancelled while planned", "failed", "inconsistent",
        ])
    func ends(end: String) throws {
        let queue = try QueueFixture()
        switch end {
        case "cancelled", "inconsistent":
            try queue.campaign("a", [3, 2])
            let shard = try #require(try queue.claim("n"))
            _ = try queue.commit(shard.fence, 1, [(0, "1>a")])
            if end == "inconsistent" {
                try queue.command("DEL", "t:campaign:a:shard:0", "t:campaign:a:shard:1")
                try queue.expire("a:0")
                _ = try queue.store.reclaim(#require(try queue.store.expired().leases.first))
                #expect(try queue.claim("n2") == nil)
            } else {
                _ = try queue.store.control(campaign: "a", .cancel, reason: "why")
                _ = try queue.commit(shard.fence, 2, [(1, ".")]) { $0.finish = .release }
                try queue.doChores()
            }
        default:
            try queue.register("a")
            let plan = try #require(try queue.store.claimPlan(worker: "w", plan: "p"))
            try queue.store.clearPlan(plan, shards: 3)
            try queue.store.writePlan(plan, call: 1, queue.windows([2, 1]))
            try queue.store.closePlan(plan, first: 0, last: 0)
            if end == "failed" {
                try queue.store.failPlan(plan, reason: "why", letter: [])
            } else {
                _ = try queue.store.control(campaign: "a", .cancel, reason: "why")
            }
            // Its chore is not done yet.
            #expect(try queue.list("chores") == ["a"])
        }
        let state = try queue.store.report("a")?.state
        #expect(state == end.split(separator: " ").first.map(String.init))
        #expect(try cleanUp(queue) == .none)
        try age(queue, "a")
        while try cleanUp(queue) != .gone("a") {}
        #expect(try queue.doChores() == 0)
        let left = (try queue.command("KEYS", "*").array ?? []).compactMap(\.string).filter {
            !$0.hasPrefix("t:stats")
        }
        #expect(Set(left).isSubset(of: ["t:events", "t:dead", "t:worker:w"]))
    }

    @Test("one that is not over stays, whatever the list of ended ones says")
    func notOver() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [1])
        try queue.register("b")
        for id in ["a", "b", "nobody"] { try queue.command("ZADD", "t:finished", "1", id) }
        let keys = try queue.command("DBSIZE").integer
        for _ in 0..<3 { _ = try cleanUp(queue) }
        #expect(try cleanUp(queue) == .none)
        #expect(try queue.command("DBSIZE").integer == keys.map { $0 - 1 })  // the list itself
        let shard = try #require(try queue.claim("n"))
        #expect(try queue.commit(shard.fence, 1, [(0, "a")]).status == .done)
        // One that ended later than the list says is as young as it is.
        try queue.command("ZADD", "t:finished", "1", "a")
        #expect(try cleanUp(queue) == .part("a"))
        #expect(try cleanUp(queue) == .none)
        #expect(try queue.store.report("a")?.state == "completed")
    }

    @Test("one that is half removed comes first, also for workers that keep campaigns for longer")
    func order() throws {
        let queue = try QueueFixture()
        for id in ["a", "b"] { _ = try completed(queue, id, 10) }
        try queue.command("ZADD", "t:finished", "2", "a")
        try age(queue, "b")
        #expect(try cleanUp(queue) == .part("b"))
        try age(queue, "a")
        #expect(try queue.command("ZSCORE", "t:finished", "b").integer == 0)
        let longest: Int64 = 365 * 86_400_000
        #expect(try queue.store.cleanUp(keptMilliseconds: longest, pause: 0) == .gone("b"))
    }

    @Test("parts of all workers together keep their distance")
    func pace() throws {
        let queue = try QueueFixture()
        _ = try completed(queue, "a", 20)
        #expect(try cleanUp(queue, pause: 60_000) == .none)
        try age(queue, "a")
        #expect(try cleanUp(queue, pause: 60_000) == .part("a"))
        #expect(try cleanUp(queue, pause: 60_000) == .wait)
        try queue.command("DEL", "t:retire_pause")
        #expect(try cleanUp(queue, pause: 60_000) == .part("a"))
    }
}
