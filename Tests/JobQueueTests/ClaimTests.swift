import Campaign
import JobQueue
import Redis
import TestKit
import Testing

@Suite("Claims", .timeLimit(.minutes(1)))
struct ClaimTests {
    @Test("the same worker and nonce again get the same shard and epoch")
    func again() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [2, 2])
        let first = try #require(try queue.claim("n1"))
        let again = try #require(try queue.claim("n1"))
        #expect(first.fence == again.fence)
        #expect(first.fence.epoch > 0)
        #expect(first.fence.plan == "plan-a")
        #expect(String(decoding: first.ledger, as: UTF8.self) == "..")
        let second = try #require(try queue.claim("n2"))
        #expect(second.fence.shard != first.fence.shard)
        #expect(try queue.claim("n3") == nil)
    }

    @Test("campaigns take turns by weight")
    func weights() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [1, 1, 1, 1, 1, 1], fields: ["weight": "2"])
        try queue.campaign("b", [1, 1, 1, 1, 1, 1], fields: ["weight": "1"])
        let order = try (0..<12).compactMap { try queue.claim("n\($0)")?.fence.campaign }
        #expect(order.joined() == "aabaabaabbbb")
        #expect(try queue.claim("last") == nil)
        #expect(try queue.list("ring") == [])
    }

    @Test("campaigns that are passed over keep their place in the ring")
    func excluded() throws {
        let queue = try QueueFixture()
        for id in ["a", "b", "c"] { try queue.campaign(id, [1, 1]) }
        #expect(try queue.claim("n1", excluding: ["a", "c"])?.fence.campaign == "b")
        #expect(try queue.claim("n2", excluding: ["a", "b", "c"]) == nil)
        #expect(try queue.list("ring").sorted() == ["a", "b", "c"])
        // A name inside another name is not passed over.
        #expect(try queue.claim("n3", excluding: ["ab", "b", "ca"]) != nil)
    }

    @Test("a claim looks at 64 campaigns at most")
    func bounded() throws {
        let queue = try QueueFixture()
        try queue.campaign("z", [1])
        for number in 0..<70 { try queue.command("LPUSH", "t:ring", "gone-\(number)") }
        #expect(try queue.claim("n1") == nil)
        #expect(try queue.list("ring").count == 7)
        #expect(try queue.claim("n2")?.fence.campaign == "z")
    }

    @Test("a released shard is claimed first, under a higher epoch; the old claim is fenced")
    func released() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [1, 1, 1])
        let first = try #require(try queue.claim("n1"))
        #expect(try queue.commit(first.fence, 1) { $0.finish = .release }.status == .ok)
        let next = try #require(try queue.claim("n2"))
        #expect(next.fence.shard == first.fence.shard)
        #expect(next.fence.epoch > first.fence.epoch)
        #expect(try queue.commit(first.fence, 2, [(0, "a")]).status == .fenced)
        #expect(try queue.ledger("a") == ".")
    }

    @Test("a parked shard waits for its time, keeps its due times, then is claimed again")
    func parked() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [2])
        let first = try #require(try queue.claim("n1"))
        var due: [UInt8] = []
        DueRecords.append(0, at: 12345, ahead: 1, to: &due)
        let until = first.nowMilliseconds + 600_000
        let parked = try queue.commit(first.fence, 1, [(0, "1a")]) {
            $0.finish = .park(untilMilliseconds: until, lengthMilliseconds: 600_000)
            $0.due = due
            $0.unknowns = [0, 0, 0, 0]
        }
        #expect(parked.status == .ok)
        #expect(parked.left == 1)
        #expect(try queue.command("ZSCORE", "t:deferred", "a:0").string == String(until))
        #expect(try queue.command("ZCARD", "t:leases").integer == 0)
        #expect(try queue.unpark() == 0)
        #expect(try queue.store.idle().parked == 1)
        #expect(try queue.claim("n2") == nil)
        try queue.command("ZADD", "t:deferred", "1", "a:0")
        #expect(try queue.unpark() == 1)
        #expect(try queue.unpark() == 0)
        let again = try #require(try queue.claim("n3"))
        #expect(again.due == due)
        #expect(again.unknowns == [0, 0, 0, 0])
        #expect(String(decoding: again.ledger, as: UTF8.self) == "1a")
        #expect(try queue.differences("a") == [])
    }

    @Test("a parked shard of a paused campaign comes back with the campaign")
    func parkedPaused() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [1])
        let first = try #require(try queue.claim("n1"))
        _ = try queue.commit(first.fence, 1, [(0, "1")]) {
            $0.finish = .park(untilMilliseconds: 1, lengthMilliseconds: 0)
        }
        _ = try queue.store.control(campaign: "a", .pause, reason: "r")
        #expect(try queue.unpark() == 1)
        #expect(try queue.claim("n2") == nil)
        _ = try queue.store.control(campaign: "a", .resume, reason: "")
        #expect(try queue.claim("n3") != nil)
    }

    @Test("a time before which nobody claims is over when the clock jumped back before it")
    func clockJump() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [1, 1])
        try queue.register("b")
        let now = try #require(try queue.command("TIME").array?.first?.integer) * 1000
        func hold(_ ahead: Int64) throws {
            try queue.command("SET", "t:claims_from", String(now + ahead))
        }
        try hold(2500)
        #expect(try queue.claim("n1") == nil)
        #expect(try queue.store.claimPlan(worker: "w", plan: "p1") == nil)
        try hold(600_000)
        #expect(try queue.claim("n2") != nil)
        #expect(try queue.store.claimPlan(worker: "w", plan: "p2") != nil)
        try queue.command("HSET", "t:campaign:a", "claims_from_ms", String(now + 1800))
        #expect(try queue.claim("n3") == nil)
        try queue.command("HSET", "t:campaign:a", "claims_from_ms", String(now + 600_000))
        #expect(try queue.claim("n4") != nil)
    }

    @Test("a heartbeat renews what the worker holds and names what it has lost")
    func heartbeat() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [1, 1])
        try queue.register("b")
        let plan = try #require(try queue.store.claimPlan(worker: "w", plan: "pb"))
        let mine = try #require(try queue.claim("n1"))
        let other = try #require(try queue.claim("n2", worker: "v"))
        for member in ["a:0", "a:1", "b:plan"] { try queue.expire(member) }
        var stolen = other.fence
        stolen.nonce = "mine"
        stolen.epoch -= 1
        let lost = try queue.store.heartbeat(
            worker: "w", fields: ["host": "h"],
            holds: [
                .shard(mine.fence), .shard(stolen), .plan(campaign: "b", plan: plan.plan),
                .plan(campaign: "a", plan: "plan-a"),
            ])
        #expect(lost == [.shard(stolen), .plan(campaign: "a", plan: "plan-a")])
        #expect(try queue.store.expired().leases.map(\.member) == ["a:\(other.fence.shard)"])
        #expect(try queue.field("worker:w", "host") == "h")
    }

    @Test("a heartbeat of more than 64 leases renews all of them")
    func manyHolds() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [Int](repeating: 1, count: 70))
        var holds: [JobStore.Hold] = []
        for number in 0..<70 {
            let shard = try #require(try queue.claim("n\(number)"))
            holds.append(.shard(shard.fence))
            try queue.expire("a:\(shard.fence.shard)")
        }
        #expect(try queue.store.heartbeat(worker: "w", fields: [:], holds: holds) == [])
        #expect(try queue.store.expired().leases == [])
    }
}
