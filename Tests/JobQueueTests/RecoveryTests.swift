import JobQueue
import Redis
import TestKit
import Testing

@testable import Campaign

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

    @Test("under resend what was in flight is sent again, and only the first death charges a try")
    func resend() throws {
        let (queue, fence) = try Self.abandoned(
            ".>A1aEI>", fields: ["on_unknown": "resend", "max_tries": "5"],
            unknowns: [7, 0, 0, 0])
        let lease = try #require(try queue.store.expired().leases.first)
        #expect(
            try queue.store.reclaim(lease) == .shard(resent: 5, unknown: 0, poison: 0, level: 1))
        #expect(try queue.ledger("a") == ".111a591")
        #expect(try queue.commit(fence, 2, [(0, "a")]).status == .fenced)
        #expect(try queue.differences("a") == [])
        #expect(try queue.field("campaign:a:shard:0", "crashes") == "1")
        let next = try #require(try queue.claim("n2"))
        #expect(next.fence.epoch > fence.epoch + 1)
        // The budget of unknown outcomes is not a matter of deaths.
        #expect(DueRecords.readIndexes(next.unknowns) == [7])
        #expect(Probe.read(next.suspects) == [1: 1, 2: 1, 5: 1, 6: 1, 7: 1])
        // Two are marked again and lost again; one of the others is over.
        _ = try queue.commit(next.fence, 1, [(1, "AA"), (7, "a")])
        try queue.expire("a:0")
        let second = try #require(try queue.store.expired().leases.first)
        #expect(
            try queue.store.reclaim(second) == .shard(resent: 2, unknown: 0, poison: 0, level: 2))
        #expect(try queue.ledger("a") == ".111a59a")
        #expect(
            Probe.read(try #require(try queue.claim("n3")).suspects) == [
                1: 2, 2: 2, 5: 1, 6: 1,
            ])
        #expect(try queue.differences("a") == [])
    }

    @Test("a recipient that was alone in flight in three deaths is rejected as Poison")
    func poison() throws {
        let (queue, _) = try Self.abandoned(
            ".>A", fields: ["on_unknown": "resend", "max_tries": "1"])
        func die() throws -> JobStore.Reclaimed {
            try queue.expire("a:0")
            let lease = try #require(try queue.store.expired().leases.first)
            return try queue.store.reclaim(lease)
        }
        // In company the level stops at being sent alone, however often that happens.
        for level in [1, 2, 3, 3, 3] {
            #expect(try die() == .shard(resent: 2, unknown: 0, poison: 0, level: level))
            let next = try #require(try queue.claim("company \(level)"))
            _ = try queue.commit(next.fence, 1, [(1, "AA")])
        }
        let fence = try #require(try queue.claimed("a"))
        _ = try queue.commit(fence, 2, [(1, "A1")])
        for level in [4, 5] {
            let isLast = level == 5
            #expect(
                try die()
                    == .shard(
                        resent: isLast ? 0 : 1, unknown: 0, poison: isLast ? 1 : 0,
                        level: isLast ? 0 : level))
            if !isLast {
                let next = try #require(try queue.claim("alone \(level)"))
                _ = try queue.commit(next.fence, 1, [(1, "A1")])
            }
        }
        #expect(try queue.ledger("a") == ".r1")
        #expect(try queue.field("campaign:a:shard:0:reasons", "1") == "Poison")
        #expect(try queue.store.report("a")?.reasons == ["Poison": 1])
        #expect(Probe.read(try #require(try queue.claim("rest")).suspects) == [2: 3])
        #expect(try queue.differences("a") == [])
    }

    @Test("a shard that ends five workers before anything is marked pauses its campaign")
    func shardPoison() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [2])
        for death in 1...5 {
            let shard = try #require(try queue.claim("n\(death)"))
            try queue.expire("a:0")
            let lease = try #require(try queue.store.expired().leases.first)
            let result = try queue.store.reclaim(lease)
            #expect(
                result
                    == (death < 5 ? .shard(resent: 0, unknown: 0, poison: 0, level: 0) : .paused))
            #expect(shard.suspects == [])
        }
        #expect(try queue.store.report("a")?.state == "paused")
        #expect(try queue.field("campaign:a", "reason")?.contains("shard 0 ended 5") == true)
        #expect(try queue.store.control(campaign: "a", .resume, reason: "") == "running")
        // A commit in between starts the count again.
        let shard = try #require(try queue.claim("n6"))
        #expect(try queue.commit(shard.fence, 1, [(0, "aa")]).status == .done)
        #expect(try queue.differences("a") == [])
    }

    @Test("a plan that ends five workers at about the same place fails the campaign")
    func planPoison() throws {
        let queue = try QueueFixture()
        try queue.register("a")
        func die(after recipients: Int, _ name: String) throws -> JobStore.Reclaimed {
            let plan = try #require(try queue.store.claimPlan(worker: "w", plan: name))
            try queue.store.clearPlan(plan, shards: 1)
            if recipients > 0 {
                try queue.store.writePlan(plan, call: 1, queue.windows([recipients]))
            }
            try queue.command("HSET", "t:campaign:a", "plan_written", String(recipients * 1000))
            try queue.expire("a:plan")
            let lease = try #require(try queue.store.expired().leases.first)
            return try queue.store.reclaim(lease)
        }
        // Deaths at other places are no sign of a fault of the audience.
        for (index, place) in [10, 100, 300, 10, 500].enumerated() {
            #expect(try die(after: place, "other\(index)") == .plan)
        }
        for index in 1...4 {
            #expect(
                try die(after: 505 + index, "same\(index)") == (index < 4 ? .plan : .planFailed))
        }
        #expect(try queue.store.report("a")?.state == "failed")
        #expect(try queue.list("dead").first?.contains("planning it ended 5 workers") == true)
        #expect(try queue.doChores() > 0)
        #expect(try queue.command("KEYS", "t:campaign:a:shard:*").array?.count == 0)
        #expect(try queue.command("HLEN", "t:open").integer == 0)
    }

    @Test("under skip all that was in flight ends as unknown, and the campaign may end with it")
    func skip() throws {
        let (queue, _) = try Self.abandoned("a>AI", fields: ["on_unknown": "skip"])
        let lease = try #require(try queue.store.expired().leases.first)
        #expect(
            try queue.store.reclaim(lease) == .shard(resent: 0, unknown: 3, poison: 0, level: 0))
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
        #expect(
            try queue.store.reclaim(fresh) == .shard(resent: 0, unknown: 0, poison: 0, level: 0))
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
        #expect(
            try queue.store.reclaim(lease) == .shard(resent: 0, unknown: 0, poison: 0, level: 0))
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
        #expect(
            try queue.store.reclaim(lease) == .shard(resent: 1, unknown: 0, poison: 0, level: 3))
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
