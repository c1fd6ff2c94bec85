import Campaign
import JobQueue
import Redis
import TestKit
import Testing

@Suite("When Redis comes back with older data")
struct RollbackTests {
    /// A campaign whose Redis then goes back to the moment before `lost` ran.
    private func rolledBack(
        _ queue: QueueFixture, _ lost: () throws -> Void
    ) throws {
        queue.server.kill()
        try queue.server.directory.copy("appendonlydir", to: "copy")
        try queue.restart()
        try lost()
        queue.server.kill()
        try queue.server.directory.remove("appendonlydir")
        try queue.server.directory.copy("copy", to: "appendonlydir")
        try queue.restart()
    }

    @Test("a lost claim is taken back by its living owner, who writes the whole ledger")
    func lostClaim() throws {
        let queue = try QueueFixture(appendOnly: true)
        try queue.campaign("a", [4])
        var fence: Fence?
        try rolledBack(queue) {
            fence = try queue.claim("mine")?.fence
            if let fence { _ = try queue.commit(fence, 1, [(0, ">>")]) }
        }
        let mine = try #require(fence)
        #expect(try queue.ledger("a") == "....")
        #expect(try queue.commit(mine, 2, [(0, "aa")]).status == .claimRolledBack)
        let taken = try #require(try queue.store.reassert(worker: "w", mine))
        #expect(taken.epoch > mine.epoch)
        let reply = try queue.commit(taken, 2, [(0, "aa>.")]) { $0.isReplay = true }
        #expect(reply.status == .ok)
        #expect(try queue.ledger("a") == "aa>.")
        #expect(try queue.claim("other") == nil)  // it is not ready any more
        #expect(try queue.differences("a") == [])
    }

    @Test("an owner that comes back late does not take the shard from who claimed it since")
    func twoOwners() throws {
        let queue = try QueueFixture(appendOnly: true)
        try queue.campaign("a", [4])
        var first: Fence?
        try rolledBack(queue) { first = try queue.claim("first")?.fence }
        let second = try #require(try queue.claim("second", worker: "v")).fence
        let late = try #require(first)
        #expect(second.epoch > late.epoch)
        #expect(try queue.commit(late, 1, [(0, ">")]).status == .fenced)
        #expect(try queue.store.reassert(worker: "w", late) == nil)
        #expect(try queue.commit(second, 1, [(0, ">")]).status == .ok)
    }

    @Test("an epoch that was given away when a shard was taken back is never given again")
    func twice() throws {
        let queue = try QueueFixture(appendOnly: true)
        try queue.campaign("a", [4])
        let fence = try #require(try queue.claim("n")).fence
        var taken: Fence?
        try rolledBack(queue) { taken = try queue.store.reassert(worker: "w", fence) }
        let lost = try #require(taken)
        let again = try #require(try queue.store.reassert(worker: "w", fence))
        // As after a lost reply.
        #expect(try queue.store.reassert(worker: "w", fence) == again)
        #expect(again.epoch > lost.epoch)
        try queue.expire("a:0")
        let lease = try #require(try queue.store.expired().leases.first)
        _ = try queue.store.reclaim(lease)
        let epoch = try queue.field("campaign:a:shard:0", "epoch").flatMap { Int($0) }
        #expect(try #require(epoch) > again.epoch)
    }

    @Test("a shard that was finished is finished again, and the campaign with it")
    func finished() throws {
        let queue = try QueueFixture(appendOnly: true)
        try queue.campaign("a", [2])
        let fence = try #require(try queue.claim("n")).fence
        _ = try queue.commit(fence, 1, [(0, ">>")])
        var lost: CommitReply.Status?
        try rolledBack(queue) { lost = try queue.commit(fence, 2, [(0, "ag")]).status }
        #expect(lost == .done)
        #expect(try queue.store.report("a")?.state == "running")
        // The repeat of the last commit is all it takes.
        #expect(try queue.commit(fence, 2, [(0, "ag")]).status == .done)
        #expect(try queue.store.report("a")?.state == "completed")
        #expect(try queue.differences("a") == [])
    }

    @Test("another Redis holds claims back until living owners have returned")
    func anotherRedis() throws {
        let queue = try QueueFixture(appendOnly: true)
        try queue.campaign("a", [2, 2])
        #expect(try queue.store.seesAnotherRedis() == false)
        #expect(try queue.claim("one") != nil)
        try queue.restart()
        #expect(try queue.store.seesAnotherRedis())
        #expect(try queue.store.seesAnotherRedis() == false)
        #expect(try queue.claim("two") == nil)
        try blockUntil("claims go on after 3 s") { try queue.claim("two") != nil }
    }
}
