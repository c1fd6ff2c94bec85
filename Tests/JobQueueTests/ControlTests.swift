import Campaign
import JobQueue
import Redis
import TestKit
import Testing

@Suite("Pause, resume and cancel in Redis", .timeLimit(.minutes(1)))
struct ControlTests {
    private func steer(
        _ queue: QueueFixture, _ action: JobStore.ControlAction, ahead: Bool = false
    ) throws -> String? {
        try queue.forget()
        return try queue.store.control(campaign: "a", action, reason: "why", ahead: ahead)
    }

    @Test("a cancel ends all that nobody works on, and the owner's share when it is given back")
    func cancel() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [4, 3, 2])
        let mine = try #require(try queue.claim("mine"))
        _ = try queue.commit(mine.fence, 1, [(0, "a>>1")])
        let parked = try #require(try queue.claim("parked"))
        _ = try queue.commit(parked.fence, 1, [(0, "12g")]) {
            $0.finish = .park(untilMilliseconds: 9_000_000_000_000, lengthMilliseconds: 1)
        }
        #expect(try steer(queue, .cancel) == "cancelling")
        #expect(try steer(queue, .resume) == "cancelling")
        #expect(try queue.claim("more") == nil)
        #expect(try queue.doChores() == 1)
        // The shard of a living owner is not touched.
        #expect(try queue.ledger("a", 0) == "a>>1")
        #expect(try queue.ledger("a", 1) == "ccg")
        #expect(try queue.ledger("a", 2) == "cc")
        #expect(try queue.store.report("a")?.state == "cancelling")
        #expect(try queue.differences("a") == [])
        #expect(try queue.commit(mine.fence, 2, [(1, "g")]).campaignState == "cancelling")
        let last = try queue.commit(mine.fence, 3, [(2, ".")]) { $0.finish = .release }
        #expect(last.status == .done)
        #expect(try queue.ledger("a", 0) == "agcc")
        #expect(try queue.store.report("a")?.state == "cancelled")
        #expect(
            try queue.classes("a") == [.accepted: 1, .gone: 2, .cancelled: 6])
        #expect(try queue.differences("a") == [])
        #expect(try queue.command("HLEN", "t:open").integer == 0)
        #expect(try queue.store.idle().isIdle)
        #expect(
            try queue.commit(mine.fence, 3, [(2, ".")]) { $0.finish = .release }.status == .done)
        #expect(try queue.list("events").count { $0.contains("\"cancelled\"") } == 1)
    }

    @Test("a cancel beats the recovery: what a dead worker had in flight ends as unknown")
    func cancelAndDeath() throws {
        for policy in ["resend", "skip"] {
            let queue = try QueueFixture()
            try queue.campaign("a", [5], fields: ["on_unknown": policy])
            let mine = try #require(try queue.claim("mine"))
            _ = try queue.commit(mine.fence, 1, [(0, ".>A1a")])
            #expect(try steer(queue, .cancel) == "cancelling")
            #expect(try queue.doChores() == 1)
            #expect(try queue.ledger("a") == ".>A1a")
            try queue.expire("a:0")
            let lease = try #require(try queue.store.expired().leases.first)
            #expect(
                try queue.store.reclaim(lease)
                    == .shard(resent: 0, unknown: 2, poison: 0, level: 0))
            #expect(try queue.ledger("a") == "cuuca")
            #expect(try queue.store.report("a")?.state == "cancelled")
            #expect(try queue.differences("a") == [])
            #expect(try queue.commit(mine.fence, 2, [(0, "a")]).status == .fenced)
        }
    }

    @Test("a shard that parks or wakes while its campaign is cancelled ends")
    func cancelAndPark() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [1, 1])
        let first = try #require(try queue.claim("n1"))
        _ = try queue.commit(first.fence, 1, [(0, "1")]) {
            $0.finish = .park(untilMilliseconds: 1, lengthMilliseconds: 1)
        }
        let second = try #require(try queue.claim("n2"))
        #expect(try steer(queue, .cancel) == "cancelling")
        let reply = try queue.commit(second.fence, 1, [(0, "1")]) {
            $0.finish = .park(untilMilliseconds: 1, lengthMilliseconds: 1)
        }
        #expect(reply.status == .done)
        #expect(try queue.unpark() == 1)
        #expect(try queue.ledger("a", 0) == "c")
        #expect(try queue.ledger("a", 1) == "c")
        #expect(try queue.store.report("a")?.state == "cancelled")
        #expect(try queue.differences("a") == [])
    }

    @Test("a cancel during planning ends the campaign with nobody in it; the planner is fenced")
    func cancelPlanning() throws {
        let queue = try QueueFixture()
        try queue.register("a")
        let plan = try #require(try queue.store.claimPlan(worker: "w", plan: "p"))
        try queue.store.clearPlan(plan, shards: 70)
        try queue.store.writePlan(plan, call: 1, queue.windows([2, 1]))
        try queue.store.closePlan(plan, first: 0, last: 0)
        #expect(try steer(queue, .cancel) == "cancelled")
        #expect(throws: JobStore.PlanFenced.self) {
            try queue.store.writePlan(plan, call: 2, queue.windows([1]))
        }
        #expect(try queue.doChores() == 2)
        #expect(try queue.command("KEYS", "t:campaign:a:*").array?.count == 1)  // the job
        #expect(try queue.command("HLEN", "t:open").integer == 0)
        #expect(try queue.store.report("a")?.total == 0)
        #expect(try queue.differences("a") == [])
        #expect(try queue.store.idle().isIdle)
        #expect(try queue.store.claimPlan(worker: "w", plan: "p2") == nil)
    }

    @Test("a control that comes before the job is obeyed, one without a job is refused")
    func ahead() throws {
        let queue = try QueueFixture()
        #expect(try steer(queue, .cancel) == nil)
        #expect(try steer(queue, .pause, ahead: true) == "ahead")
        #expect(try queue.store.report("a") == nil)
        try queue.campaign("a", [2])
        #expect(try queue.store.report("a")?.state == "paused")
        #expect(try queue.command("TTL", "t:campaign:a").integer == -1)
        #expect(try queue.claim("n") == nil)
        #expect(try steer(queue, .resume) == "running")
        #expect(try queue.claim("n") != nil)

        let other = try QueueFixture()
        #expect(try steer(other, .cancel, ahead: true) == "ahead")
        #expect(try other.register("a") == .accepted)
        #expect(try other.store.report("a")?.state == "cancelled")
        #expect(try other.store.claimPlan(worker: "w", plan: "p") == nil)
        #expect(try other.register("a") == .duplicate)
    }

    @Test(
        "what a backend pushes onto the control list is obeyed, what is no control is a dead letter"
    )
    func controlList() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [1])
        for text in [
            "pause a", "resume  a ", "cancel later", "stop a", "pause", "\u{1}ü", "pause a",
        ] {
            try queue.command("LPUSH", "t:control", text)
        }
        #expect(try queue.store.obeyControls() == 7)
        #expect(try queue.store.obeyControls() == 0)
        #expect(try queue.store.report("a")?.state == "paused")
        #expect(try queue.field("campaign:a", "reason") == "pause by the backend")
        #expect(try queue.list("dead").count == 3)
        #expect(try queue.list("dead").last?.contains("stop a") == true)
        #expect(try queue.register("later") == .accepted)
        #expect(try queue.store.report("later")?.state == "cancelled")
    }

    @Test("shards of a paused campaign are held and not counted as open, until it goes on")
    func held() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", Array(repeating: 1, count: 100))
        func numbers() throws -> [Int64?] {
            [
                try queue.command("HLEN", "t:open").integer,
                try queue.command("HLEN", "t:held").integer,
            ]
        }
        let mine = try #require(try queue.claim("n"))
        #expect(try numbers() == [100, 0])
        #expect(try steer(queue, .pause) == "paused")
        #expect(try queue.doChores() == 2)
        #expect(try numbers() == [0, 100])
        _ = try queue.commit(mine.fence, 1) { $0.finish = .release }
        #expect(try numbers() == [0, 100])
        #expect(try steer(queue, .resume) == "running")
        let next = try #require(try queue.claim("n2"))
        #expect(try numbers() == [1, 99])
        #expect(try queue.commit(next.fence, 1, [(0, "a")]).status == .done)
        #expect(try queue.doChores() == 2)
        #expect(try numbers() == [99, 0])
        #expect(try steer(queue, .pause) == "paused")
        #expect(try steer(queue, .cancel) == "cancelling")
        #expect(try queue.doChores() == 2)
        #expect(try numbers() == [0, 0])
        #expect(try queue.store.report("a")?.state == "cancelled")
        #expect(try queue.differences("a") == [])
    }

    @Test("a parked time that lies further ahead than it was set for is pulled in")
    func clamped() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [1])
        let shard = try #require(try queue.claim("n"))
        let late = shard.nowMilliseconds + 720_000
        _ = try queue.commit(shard.fence, 1, [(0, "1")]) {
            $0.finish = .park(untilMilliseconds: late, lengthMilliseconds: 5000)
        }
        #expect(try queue.unpark() == 0)
        #expect(try queue.command("ZSCORE", "t:deferred", "a:0").integer == late)
        #expect(try queue.unpark(from: 0) == 0)
        let score = try #require(try queue.command("ZSCORE", "t:deferred", "a:0").integer)
        #expect(score < late - 700_000)
    }

    @Test(
        "a campaign whose shard vanished from Redis ends as inconsistent, never as completed",
        arguments: ["ready", "running", "parked"])
    func lost(state: String) throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [3, 1])
        let first = try #require(try queue.claim("n1"))
        _ = try queue.commit(first.fence, 1, [(0, "a>1")])
        switch state {
        case "ready": _ = try queue.commit(first.fence, 2, [(1, "a")]) { $0.finish = .release }
        case "parked":
            _ = try queue.commit(first.fence, 2, [(1, "a")]) {
                $0.finish = .park(untilMilliseconds: 1, lengthMilliseconds: 1)
            }
        default: try queue.expire("a:0")
        }
        try queue.command("DEL", "t:campaign:a:shard:0")
        if state == "running" {
            let lease = try #require(try queue.store.expired().leases.first)
            #expect(try queue.store.reclaim(lease) == .kept)
        }
        if state == "parked" { #expect(try queue.unpark() == 1) }
        let next = try #require(try queue.claim("n2"))
        #expect(try queue.commit(next.fence, 1, [(0, "a")]).status == .done)
        let report = try #require(try queue.store.report("a"))
        #expect(report.state == "inconsistent")
        let left = state == "running" ? 2 : 1
        #expect(
            report.fields["reason"]
                == "1 of its shards vanished from Redis; what became of \(left) recipients is not "
                + "known"
        )
        #expect(try queue.claim("n3") == nil)
        #expect(try queue.store.idle().isIdle)
    }
}
