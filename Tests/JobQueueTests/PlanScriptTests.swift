import Campaign
import Redis
import TestKit
import Testing

@testable import JobQueue

@Suite("Plans in Redis", .timeLimit(.minutes(1)))
struct PlanScriptTests {
    @Test("a plan becomes shards with full ledgers; shards without recipients do not exist")
    func whole() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [3, 0, 5])
        let report = try #require(try queue.store.report("a"))
        #expect(report.state == "running")
        #expect(report.total == 8)
        #expect(report.fields["open_shards"] == "2")
        #expect(try queue.classes("a") == [.untouched: 8])
        #expect(try queue.ledger("a", 0) == "...")
        #expect(try queue.ledger("a", 1) == "")
        #expect(try queue.ledger("a", 2) == ".....")
        #expect(try queue.list("campaign:a:ready") == ["0", "2"])
        let audit = try queue.store.audit("a")
        #expect(audit.differences == [])
        #expect(audit.shards == 2)
        #expect(audit.recipients == 8)
        let table = try #require(
            RecipientTable(windows: try queue.store.windows(campaign: "a", shard: 2)))
        #expect(table.count == 5)
    }

    @Test("steps of a plan that was given to somebody else are refused")
    func fence() throws {
        let queue = try QueueFixture()
        try queue.register("a")
        let first = try #require(try queue.store.claimPlan(worker: "w", plan: "p1"))
        try queue.store.releasePlan(first)
        #expect(try queue.list("plans") == ["a"])
        let second = try #require(try queue.store.claimPlan(worker: "w", plan: "p2"))
        let windows = queue.windows([1])
        #expect(throws: JobStore.PlanFenced.self) { try queue.store.clearPlan(first, shards: 1) }
        #expect(throws: JobStore.PlanFenced.self) {
            try queue.store.writePlan(first, call: 1, windows)
        }
        #expect(throws: JobStore.PlanFenced.self) {
            try queue.store.closePlan(first, first: 0, last: 0)
        }
        #expect(throws: JobStore.PlanFenced.self) {
            try queue.store.finishPlan(first, openShards: 1, total: 1)
        }
        #expect(throws: JobStore.PlanFenced.self) {
            try queue.store.failPlan(first, reason: "r", letter: [])
        }
        #expect(throws: JobStore.PlanFenced.self) { try queue.store.releasePlan(first) }
        try queue.store.clearPlan(second, shards: 1)
        #expect(try queue.command("LLEN", "t:campaign:a:shard:0:recipients").integer == 0)
    }

    @Test("a claim repeated after a lost reply gets the same plan, another claim gets none")
    func claimAgain() throws {
        let queue = try QueueFixture()
        try queue.register("a")
        #expect(try queue.store.claimPlan(worker: "w", plan: "p1")?.campaign == "a")
        #expect(try queue.store.claimPlan(worker: "w", plan: "p1")?.campaign == "a")
        #expect(try queue.store.claimPlan(worker: "v", plan: "p2") == nil)
    }

    @Test("every step may be repeated and counts once")
    func repeated() throws {
        let queue = try QueueFixture()
        try queue.register("a")
        let plan = try #require(try queue.store.claimPlan(worker: "w", plan: "p"))
        for _ in 0..<2 { try queue.store.clearPlan(plan, shards: 1) }
        let windows = queue.windows([4])
        for call in [1, 1, 2, 2] { try queue.store.writePlan(plan, call: call, windows) }
        for _ in 0..<2 { try queue.store.closePlan(plan, first: 0, last: 0) }
        for _ in 0..<2 { try queue.store.finishPlan(plan, openShards: 1, total: 8) }
        #expect(try queue.ledger("a") == "........")
        #expect(try queue.list("campaign:a:ready") == ["0"])
        #expect(try queue.list("ring") == ["a"])
        #expect(try queue.differences("a") == [])
    }

    @Test("a call that comes late, from a connection given up, changes nothing")
    func late() throws {
        let queue = try QueueFixture()
        try queue.register("a")
        let plan = try #require(try queue.store.claimPlan(worker: "w", plan: "p"))
        try queue.store.clearPlan(plan, shards: 1)
        let windows = queue.windows([4])
        for call in [1, 2, 1] { try queue.store.writePlan(plan, call: call, windows) }
        try queue.store.clearPlan(plan, shards: 1)
        #expect(try queue.command("LLEN", "t:campaign:a:shard:0:recipients").integer == 2)
        try queue.store.closePlan(plan, first: 0, last: 0)
        try queue.store.clearPlan(plan, shards: 1)
        try queue.store.finishPlan(plan, openShards: 1, total: 8)
        #expect(try queue.ledger("a") == "........")
        _ = try queue.store.control(campaign: "a", .pause, reason: "somebody")
        #expect(try queue.store.claimPlan(worker: "w", plan: "p") == nil)
        #expect(try queue.field("campaign:a", "reason") == "somebody")
        #expect(try queue.command("ZCARD", "t:leases").integer == 0)
    }

    @Test("a plan of which Redis lost a part is not finished")
    func lostPart() throws {
        let queue = try QueueFixture()
        try queue.register("a")
        let plan = try #require(try queue.store.claimPlan(worker: "w", plan: "p"))
        let windows = queue.windows([4])
        // Nothing was cleared, and the campaign does not know its number of shards.
        #expect(throws: JobStore.PlanRolledBack.self) {
            try queue.store.writePlan(plan, call: 1, windows)
        }
        try queue.store.clearPlan(plan, shards: 2)
        try queue.store.writePlan(plan, call: 1, windows)
        #expect(throws: JobStore.PlanRolledBack.self) {
            try queue.store.writePlan(plan, call: 3, windows)
        }
        try queue.store.writePlan(plan, call: 2, queue.windows([0, 3]))
        // Only one of its two shards is complete.
        try queue.store.closePlan(plan, first: 0, last: 0)
        for open in 1...2 {
            #expect(throws: JobStore.PlanRolledBack.self) {
                try queue.store.finishPlan(plan, openShards: open, total: 7)
            }
        }
        try queue.store.closePlan(plan, first: 1, last: 1)
        try queue.store.finishPlan(plan, openShards: 2, total: 7)
        #expect(try queue.differences("a") == [])
    }

    @Test("a plan made again leaves nothing of the unfinished one, also when clearing broke off")
    func again() throws {
        let queue = try QueueFixture()
        try queue.register("a")
        let first = try #require(try queue.store.claimPlan(worker: "w", plan: "p1"))
        let sizes = [Int](repeating: 1, count: 40)
        try queue.store.clearPlan(first, shards: 40)
        try queue.store.writePlan(first, call: 1, queue.windows(sizes))
        try queue.store.closePlan(first, first: 0, last: 39)
        try queue.expire("a:plan")
        let lease = try #require(try queue.store.expired().leases.first)
        #expect(try queue.store.reclaim(lease) == .plan)

        let second = try #require(try queue.store.claimPlan(worker: "w", plan: "p2"))
        #expect(second.staleShards == 40)
        // The first of two calls, then the worker dies.
        let part = JobStore.ClaimedPlan(campaign: "a", plan: "p2", job: [], staleShards: 40)
        try queue.store.clearPart(part, first: 0, shards: 2)
        try queue.expire("a:plan")
        let again = try #require(try queue.store.expired().leases.first)
        #expect(try queue.store.reclaim(again) == .plan)

        let third = try #require(try queue.store.claimPlan(worker: "w", plan: "p3"))
        #expect(third.staleShards == 40)
        try queue.store.clearPlan(third, shards: 2)
        #expect(try queue.command("HLEN", "t:open").integer == 0)
        let left = try queue.command("KEYS", "t:campaign:a:shard:*")
        #expect(left.array == [])
        try queue.store.writePlan(third, call: 1, queue.windows([2, 2]))
        try queue.store.closePlan(third, first: 0, last: 1)
        try queue.store.finishPlan(third, openShards: 2, total: 4)
        #expect(try queue.differences("a") == [])
        #expect(try queue.classes("a") == [.untouched: 4])
    }

    @Test("a campaign that cannot be planned fails with its reason and a dead letter")
    func fail() throws {
        let queue = try QueueFixture()
        try queue.register("a")
        let plan = try #require(try queue.store.claimPlan(worker: "w", plan: "p"))
        try queue.store.failPlan(plan, reason: "no audience", letter: Array("letter".utf8))
        #expect(try queue.store.report("a")?.state == "failed")
        #expect(try queue.store.report("a")?.fields["reason"] == "no audience")
        #expect(try queue.list("dead") == ["letter"])
        // The same job again is no duplicate that could be dropped: nothing of it ran.
        #expect(try queue.register("a") == .failed)
        #expect(try queue.store.knows(id: "a", digest: "d1"))
        #expect(try !queue.store.knows(id: "a", digest: "d2"))
        #expect(try queue.doChores() == 1)
        #expect(try queue.store.idle().isIdle)
    }

    @Test("a pause that was asked for while planning holds the campaign when its plan is done")
    func pausedPlan() throws {
        let queue = try QueueFixture()
        try queue.register("a")
        let plan = try #require(try queue.store.claimPlan(worker: "w", plan: "p"))
        #expect(try queue.store.control(campaign: "a", .pause, reason: "r") == "planning")
        try queue.store.clearPlan(plan, shards: 1)
        try queue.store.writePlan(plan, call: 1, queue.windows([1]))
        try queue.store.closePlan(plan, first: 0, last: 0)
        try queue.store.finishPlan(plan, openShards: 1, total: 1)
        #expect(try queue.store.report("a")?.state == "paused")
        #expect(try queue.claim("n") == nil)
        #expect(try queue.store.control(campaign: "a", .resume, reason: "") == "running")
        #expect(try queue.claim("n2") != nil)
    }
}
