import JobQueue
import Redis
import TestKit
import Testing

@testable import Campaign

@Suite("Commits in Redis", .timeLimit(.minutes(1)))
struct CommitScriptTests {
    @Test("counters of shard, campaign and everybody follow from the bytes")
    func counters() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [12])
        let shard = try #require(try queue.claim("n"))
        #expect(try queue.commit(shard.fence, 1, [(0, ">>>>>>>>>")]).left == 12)
        #expect(try queue.classes("a") == [.untouched: 3, .inFlight: 9])
        let reply = try queue.commit(shard.fence, 2, [(0, "agqrs"), (5, "xcu1"), (9, ">")]) {
            $0.reasons = [(1, "Unregistered"), (3, "PayloadEmpty")]
            $0.quarantined = [Array("token".utf8)]
            $0.latency = [(24, 3), (1024, 1)]
            $0.counters = ["retries": 1, "reason:Unregistered": 1]
        }
        #expect(reply.status == .ok)
        #expect(reply.left == 4)
        #expect(reply.campaignState == "running")
        #expect(
            try queue.classes("a") == [
                .untouched: 2, .inFlight: 1, .deferred: 1, .accepted: 1, .gone: 1,
                .quarantined: 1, .rejected: 1, .skipped: 1, .expired: 1, .cancelled: 1,
                .unknown: 1,
            ])
        #expect(try queue.ledger("a") == "agqrsxcu1>..")
        #expect(try queue.field("stats", "accepted") == "1")
        #expect(try queue.field("stats", "untouched") == nil)
        #expect(try queue.field("campaign:a:stats", "retries") == "1")
        #expect(try queue.store.report("a")?.reasons == ["Unregistered": 1])
        #expect(try queue.field("campaign:a:shard:0:reasons", "3") == "PayloadEmpty")
        #expect(try queue.list("quarantine") == ["token"])
        let minutes = try queue.command("KEYS", "t:latency:minute:*").array ?? []
        let minute = try #require(minutes.first?.string)
        #expect(try queue.command("HGET", minute, "24").string == "3")
        #expect(try queue.command("TTL", minute).integer ?? 0 > 600_000)
        #expect(try queue.differences("a") == [])
    }

    @Test("counters follow from the bytes also when the worker's copy was wrong")
    func wrongCopy() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [300])
        let shard = try #require(try queue.claim("n"))
        queue.knowsLedger = false
        _ = try queue.commit(shard.fence, 1, [(0, String(repeating: ">", count: 250))])
        let accepted = String(repeating: "a", count: 30)
        _ = try queue.commit(shard.fence, 2, [(0, "agq123"), (190, accepted)])
        #expect(
            try queue.classes("a") == [
                .untouched: 50, .inFlight: 214, .deferred: 3, .accepted: 31, .gone: 1,
                .quarantined: 1,
            ])
        #expect(try queue.differences("a") == [])
    }

    @Test("a commit repeated with its number changes nothing and answers the same")
    func repeated() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [3])
        let shard = try #require(try queue.claim("n"))
        for _ in 0..<3 {
            let reply = try queue.commit(shard.fence, 1, [(0, "g>")]) {
                $0.deactivations = [Array("event".utf8)]
                $0.counters = ["retries": 1]
                $0.unknowns = [1, 0, 0, 0]
            }
            #expect(reply.status == .ok)
            #expect(reply.left == 2)
        }
        #expect(try queue.list("deactivations") == ["event"])
        #expect(try queue.field("campaign:a:stats", "retries") == "1")
        #expect(try queue.command("STRLEN", "t:campaign:a:shard:0:unknowns").integer == 4)
        #expect(try queue.classes("a") == [.untouched: 1, .inFlight: 1, .gone: 1])
    }

    @Test("an old or a far number is answered with rolled back and changes nothing")
    func numbers() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [2])
        let shard = try #require(try queue.claim("n"))
        _ = try queue.commit(shard.fence, 1, [(0, ">>")])
        _ = try queue.commit(shard.fence, 2, [(0, "1")])
        #expect(try queue.commit(shard.fence, 1, [(0, ">")]).status == .rolledBack)
        #expect(try queue.commit(shard.fence, 4, [(0, "a")]).status == .rolledBack)
        #expect(try queue.ledger("a") == "1>")
        #expect(try queue.commit(shard.fence, 3, [(0, "A")]).status == .ok)
    }

    @Test("after a rollback the whole ledger is written and the counters are right again")
    func replay() throws {
        let queue = try QueueFixture(appendOnly: true)
        try queue.campaign("a", [6])
        let shard = try #require(try queue.claim("n"))
        _ = try queue.commit(shard.fence, 1, [(0, ">>>>")])
        let directory = queue.server.directory
        queue.server.kill()
        try directory.copy("appendonlydir", to: "copy")
        try queue.restart()
        #expect(try queue.commit(shard.fence, 2, [(0, "ag")]).left == 4)
        _ = try queue.commit(shard.fence, 3, [(2, "1")])
        queue.server.kill()
        try directory.remove("appendonlydir")
        try directory.copy("copy", to: "appendonlydir")
        try queue.restart()
        #expect(try queue.ledger("a") == ">>>>..")
        #expect(try queue.commit(shard.fence, 4, [(3, "a")]).status == .rolledBack)
        let replay = try queue.commit(shard.fence, 4, [(0, "ag1a..")]) {
            $0.isReplay = true
            $0.deactivations = [Array("event".utf8)]
        }
        #expect(replay.status == .ok)
        #expect(replay.left == 3)
        #expect(try queue.ledger("a") == "ag1a..")
        #expect(try queue.list("deactivations") == ["event"])
        #expect(try queue.differences("a") == [])
        #expect(try queue.commit(shard.fence, 5, [(4, "aa")]).status == .ok)
    }

    @Test("another plan or a greater stored epoch fences, an epoch that Redis lost does not")
    func fences() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [1])
        let fence = try #require(try queue.claim("n")).fence
        var (plan, epoch, nonce, shard, campaign) = (fence, fence, fence, fence, fence)
        var old = fence
        plan.plan = "other"
        old.epoch -= 1
        epoch.epoch += 1
        nonce.nonce = "other"
        shard.shard = 7
        campaign.campaign = "b"
        for wrong in [plan, old] {
            #expect(try queue.commit(wrong, 1, [(0, "a")]).status == .fenced)
        }
        for lost in [epoch, nonce] {
            #expect(try queue.commit(lost, 1, [(0, "a")]).status == .claimRolledBack)
        }
        for missing in [shard, campaign] {
            #expect(try queue.commit(missing, 1, [(0, "a")]).status == .gone)
        }
        #expect(try queue.ledger("a") == ".")
    }

    @Test("a terminal byte is never overwritten and its neighbours are still written")
    func terminal() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [400])
        let shard = try #require(try queue.claim("n"))
        let marks = String(repeating: ">", count: 400)
        _ = try queue.commit(shard.fence, 1, [(0, "a" + marks.dropLast())])
        _ = try queue.commit(shard.fence, 2, [(199, "gu")])
        queue.knowsLedger = false
        let reply = try queue.commit(shard.fence, 3, [(0, String(repeating: "1", count: 400))])
        #expect(reply.left == 397)
        let ledger = Array(try queue.ledger("a"))
        #expect(ledger[0] == "a" && ledger[199] == "g" && ledger[200] == "u")
        #expect(ledger.filter { $0 == "1" }.count == 397)
        #expect(try queue.differences("a") == [])
    }

    @Test("a commit with a byte no ledger holds, or beyond the ledger, is refused as a whole")
    func refused() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [4])
        let shard = try #require(try queue.claim("n"))
        for knows in [true, false] {
            queue.knowsLedger = knows
            for changes in [[(0, "?")], [(2, ">>>")], [(0, "a"), (2, "?")]] {
                #expect(throws: RedisError.self) { try queue.commit(shard.fence, 1, changes) }
            }
        }
        #expect(try queue.ledger("a") == "....")
        #expect(try queue.differences("a") == [])
    }

    @Test("the last terminal byte ends the shard, the last shard the campaign, both once")
    func done() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [1, 2])
        let first = try #require(try queue.claim("n1"))
        let second = try #require(try queue.claim("n2"))
        for _ in 0..<2 {
            #expect(try queue.commit(first.fence, 1, [(0, "a")]).status == .done)
            #expect(try queue.field("campaign:a", "open_shards") == "1")
        }
        #expect(try queue.store.report("a")?.state == "running")
        for _ in 0..<2 {
            let reply = try queue.commit(second.fence, 1, [(0, "au")])
            #expect(reply.status == .done)
            #expect(reply.campaignState == "completed")
        }
        #expect(try queue.field("campaign:a", "open_shards") == "0")
        #expect(try queue.field("stats", "campaigns_completed") == "1")
        let completed = try queue.list("events").filter { $0.contains("completed") }
        #expect(completed.count == 1)
        #expect(try queue.command("EXISTS", "t:open", "t:leases", "t:deferred").integer == 0)
        #expect(try queue.commit(second.fence, 2, [(0, "g")]).status == .fenced)
        #expect(try queue.differences("a") == [])
    }

    @Test("thousands of reasons, events and entries fit into one commit")
    func large() throws {
        let queue = try QueueFixture()
        let count = 1000
        try queue.campaign("a", [count, 1])
        let shard = try #require(try queue.claim("n"))
        let reply = try queue.commit(shard.fence, 1, [(0, String(repeating: "g", count: count))]) {
            for index in 0..<count {
                $0.reasons.append((index, "Unregistered"))
                $0.deactivations.append(Array("event \(index)".utf8))
            }
            for index in 0..<2500 { $0.quarantined.append(Array("entry \(index)".utf8)) }
        }
        #expect(reply.status == .done)
        let reasons = "t:campaign:a:shard:\(shard.fence.shard):reasons"
        #expect(try queue.command("HLEN", reasons).integer == Int64(count))
        #expect(try queue.store.length("deactivations") == count)
        #expect(try queue.store.length("quarantine") == 2500)
        #expect(try queue.list("deactivations").first == "event 999")
    }

    @Test("several commits travel in one round trip, and one refused does not spoil the others")
    func several() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [1, 1])
        let shards = try ["n1", "n2"].map { try #require(try queue.claim($0)) }
        var commits = shards.map { Commit(fence: $0.fence, number: 1) }
        for (index, byte) in [UInt8(ascii: "?"), LedgerByte.accepted].enumerated() {
            commits[index].changes = [
                Commit.Change(offset: 0, known: [LedgerByte.untouched], bytes: [byte])
            ]
        }
        let before = queue.redis.roundTrips
        let replies = try queue.store.commit(commits)
        #expect(queue.redis.roundTrips - before <= 2)
        #expect(throws: RedisError.self) { try replies[0].get() }
        #expect(try replies[1].get().status == .done)
    }
}
