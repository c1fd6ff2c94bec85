import Base
import Campaign
import Testing

@Suite("Shard run: commits")
struct ShardRunCommitTests {
    @Test("the first commit is due at once, the next one not before 10 ms")
    func first() {
        var fixture = RunFixture(String(repeating: ".", count: 40))
        #expect(fixture.run.isCommitDue(now: fixture.now, target: 16))
        fixture.commit()
        for index in fixture.send() { fixture.record(index, .accepted) }
        fixture.pass(milliseconds: 9)
        #expect(!fixture.run.isCommitDue(now: fixture.now, target: 16))
        fixture.pass(milliseconds: 1)
        #expect(fixture.run.isCommitDue(now: fixture.now, target: 16))
    }

    @Test("one commit is under way at a time and is repeated unchanged")
    func oneUnderWay() throws {
        var fixture = RunFixture("..")
        let commit = fixture.run.makeCommit(now: fixture.now, target: 1)
        fixture.pass(milliseconds: 5000)
        #expect(!fixture.run.isCommitDue(now: fixture.now, target: 1))
        let again = try #require(fixture.run.commitToRepeat)
        #expect(again.number == commit.number)
        #expect(again.changed == commit.changed)
    }

    @Test("a commit is due when half of the marks are used and more can be marked")
    func halfUsed() {
        var fixture = RunFixture(String(repeating: ".", count: 40))
        fixture.commit()
        fixture.pass(milliseconds: 20)
        for index in 0..<7 {
            #expect(fixture.run.nextToSend(now: fixture.now) == index)
            fixture.record(index, .accepted)
        }
        #expect(!fixture.run.isCommitDue(now: fixture.now, target: 16))
        for index in 7..<11 {
            #expect(fixture.run.nextToSend(now: fixture.now) == index)
            fixture.record(index, .accepted)
        }
        #expect(fixture.run.isCommitDue(now: fixture.now, target: 16))
    }

    @Test("while all marks are on the wire no commit is due that could not mark any more")
    func allOnWire() {
        var fixture = RunFixture(String(repeating: ".", count: 40))
        fixture.commit()
        #expect(fixture.send().count == 16)
        fixture.pass(milliseconds: 100)
        #expect(!fixture.run.isCommitDue(now: fixture.now, target: 16))
        fixture.record(0, .accepted)
        #expect(!fixture.run.isCommitDue(now: fixture.now, target: 16))
        for index in 1..<4 { fixture.record(index, .accepted) }
        #expect(fixture.run.isCommitDue(now: fixture.now, target: 16))
    }

    @Test("a commit is due at 500 outcomes, after 400 ms with changes, after 500 ms without")
    func intervals() {
        var fixture = RunFixture(String(repeating: ".", count: 3000))
        fixture.target = 2000
        fixture.commit()
        fixture.pass(milliseconds: 20)
        for index in 0..<500 {
            #expect(fixture.run.isCommitDue(now: fixture.now, target: 2000) == false)
            _ = fixture.run.nextToSend(now: fixture.now)
            fixture.record(index, .accepted)
        }
        #expect(fixture.run.isCommitDue(now: fixture.now, target: 2000))
        fixture.commit()
        fixture.pass(milliseconds: 499)
        #expect(!fixture.run.isCommitDue(now: fixture.now, target: 2000))
        fixture.pass(milliseconds: 1)
        #expect(fixture.run.isCommitDue(now: fixture.now, target: 2000))
        fixture.commit()
        _ = fixture.run.nextToSend(now: fixture.now)
        fixture.record(500, .accepted)
        fixture.pass(milliseconds: 399)
        #expect(!fixture.run.isCommitDue(now: fixture.now, target: 2000))
        fixture.pass(milliseconds: 1)
        #expect(fixture.run.isCommitDue(now: fixture.now, target: 2000))
    }

    @Test("the last outcome makes a commit due, which says that the shard is done")
    func last() {
        var fixture = RunFixture(".")
        fixture.commit()
        #expect(fixture.send() == [0])
        fixture.record(0, .accepted)
        fixture.pass(milliseconds: 10)
        #expect(fixture.run.isCommitDue(now: fixture.now, target: 16))
        #expect(fixture.commit(.done).step == .finished)
    }

    @Test("retries that become due one by one wait for each other for 400 ms")
    func trickle() {
        var due: [UInt8] = []
        for index in 0..<4 { due += Self.due(index, Int64(100 * index)) }
        var fixture = RunFixture("1111", due: due)
        fixture.commit()
        #expect(fixture.send() == [0])
        fixture.record(0, .accepted)
        fixture.pass(milliseconds: 399)
        #expect(!fixture.run.isCommitDue(now: fixture.now, target: 16))
        fixture.pass(milliseconds: 1)
        #expect(fixture.run.isCommitDue(now: fixture.now, target: 16))
        fixture.commit()
        #expect(fixture.ledger == "aAAA")
    }

    @Test("changes far apart are separate stretches, near ones travel together")
    func stretches() {
        let accepted = String(repeating: "a", count: 16)
        var fixture = RunFixture(".\(accepted).\(accepted)a.")
        let changes = fixture.commit().commit.changes
        #expect(changes.map(\.offset) == [0, 35])
        #expect(changes.map(\.bytes.count) == [18, 1])
    }

    @Test("stopping takes back what was not sent, waits for answers, then releases the shard")
    func stopping() {
        var fixture = RunFixture("....1", due: [])
        fixture.pass(milliseconds: 1000)
        fixture.commit()
        #expect(fixture.ledger == ">>>>A")
        #expect(fixture.run.nextToSend(now: fixture.now) == 4)
        #expect(fixture.run.nextToSend(now: fixture.now) == 0)
        fixture.run.stop()
        #expect(fixture.run.nextToSend(now: fixture.now) == nil)
        fixture.pass(milliseconds: 400)
        #expect(fixture.run.isCommitDue(now: fixture.now, target: 16))
        let first = fixture.commit()
        #expect(fixture.ledger == ">...A")
        #expect(first.commit.finish == .goOn)
        fixture.record(4, .notProcessed, latency: nil)
        fixture.record(0, .accepted)
        fixture.pass(milliseconds: 10)
        #expect(fixture.run.isCommitDue(now: fixture.now, target: 16))
        let last = fixture.commit()
        #expect(last.commit.finish == .release)
        #expect(last.step == .finished)
        #expect(fixture.ledger == "a...1")
        #expect(DueRecords.waits(last.commit.due, now: fixture.redisNow) == [4: 990])
    }

    @Test("marks that Redis confirms after a stop are taken back by the next commit")
    func stopUnderWay() {
        var fixture = RunFixture("..")
        _ = fixture.run.makeCommit(now: fixture.now, target: 2)
        fixture.run.stop()
        #expect(fixture.run.applied(fixture.reply(), now: fixture.now) == .goOn)
        #expect(fixture.send() == [])
        let (commit, step) = fixture.commit()
        #expect(fixture.ledger == "..")
        #expect(commit.finish == .release)
        #expect(step == .finished)
    }

    @Test("a campaign that does not run any more stops the run")
    func paused() {
        var fixture = RunFixture("..")
        fixture.commit(campaign: "paused")
        #expect(fixture.run.isStopping)
        #expect(fixture.commit(campaign: "paused").commit.finish == .release)
    }

    @Test("recipients held by a fault that is not theirs go on when no pause came about")
    func held() {
        var fixture = RunFixture(".")
        fixture.commit()
        #expect(fixture.send() == [0])
        fixture.record(0, .held(reason: "BadTopic"))
        fixture.commit()
        #expect(fixture.ledger == ".")
        fixture.commit()
        #expect(fixture.send() == [0])
    }

    @Test("a shard with nothing but late retries parks until the first of them, all written down")
    func parks() {
        var fixture = RunFixture("..")
        fixture.commit()
        #expect(fixture.send() == [0, 1])
        fixture.record(0, .retry(reason: "InternalServerError", delayMilliseconds: 900_000))
        fixture.record(1, .retry(reason: "InternalServerError", delayMilliseconds: 950_000))
        let redis = fixture.redisNow
        let (commit, step) = fixture.commit()
        #expect(
            commit.finish
                == .park(untilMilliseconds: redis + 900_000, lengthMilliseconds: 900_000))
        #expect(DueRecords.waits(commit.due, now: redis) == [0: 900_000, 1: 950_000])
        #expect(step == .finished)
    }

    @Test("a retry within 5 s keeps the shard, and a parked one never sleeps past the deadline")
    func parkLimits() {
        var near = RunFixture("1", due: Self.due(0, 5000))
        #expect(near.commit().commit.finish == .goOn)
        var far = RunFixture("1", due: Self.due(0, 5001), deadline: RunFixture.redisStart + 100)
        #expect(
            far.commit().commit.finish
                == .park(
                    untilMilliseconds: RunFixture.redisStart + 100, lengthMilliseconds: 100))
    }

    static func due(_ index: Int, _ after: Int64) -> [UInt8] {
        var bytes: [UInt8] = []
        DueRecords.append(index, at: RunFixture.redisStart + after, ahead: after, to: &bytes)
        return bytes
    }

    @Test("the deadline expires all that is not on the wire; what is may still be answered")
    func deadline() {
        var fixture = RunFixture("...1a", deadline: RunFixture.redisStart + 2000)
        fixture.target = 2
        fixture.commit()
        #expect(fixture.run.nextToSend(now: fixture.now) == 0)
        fixture.pass(milliseconds: 2000)
        let commit = fixture.commit().commit
        #expect(fixture.ledger == ">xxxa")
        #expect(commit.counters["reason:Deadline"] == 3)
        #expect(commit.reasons.map(\.text) == ["Deadline", "Deadline", "Deadline"])
        fixture.record(0, .retry(reason: "TooManyRequests", delayMilliseconds: 10))
        #expect(fixture.commit(.done).step == .finished)
        #expect(fixture.ledger == "xxxxa")
    }

    @Test("a fenced run and one whose shard is gone end at once")
    func fenced() {
        for status in [CommitReply.Status.fenced, .gone] {
            var fixture = RunFixture("..")
            #expect(fixture.commit(status).step == .fenced)
            #expect(fixture.run.commitToRepeat == nil)
        }
    }

    @Test("after a rollback the whole ledger is written as of that commit, with recent reasons")
    func rollback() throws {
        var fixture = RunFixture("......")
        fixture.target = 4
        fixture.commit()
        #expect(fixture.send() == [0, 1, 2, 3])
        fixture.record(0, .gone(reason: "Unregistered", event: [7]))
        fixture.record(1, .retry(reason: "TooManyRequests", delayMilliseconds: 60_000))
        fixture.pass(milliseconds: 100)
        fixture.commit()
        let due = fixture.redisNow - 100 + 60_000
        fixture.record(2, .rejected(reason: "Forbidden"))
        let commit = fixture.run.makeCommit(now: fixture.now, target: 4)
        fixture.record(3, .accepted)
        #expect(fixture.run.applied(fixture.reply(.rolledBack), now: fixture.now) == .replay)
        let replay = try #require(fixture.run.commitToRepeat)
        #expect(replay.isReplay)
        #expect(replay.number == commit.number)
        // Recipient 3 was answered after the commit was made: in the replay it is in flight.
        #expect(replay.changed == "0:g1r>>>")
        #expect(Set(replay.reasons.map(\.text)) == ["Unregistered", "Forbidden"])
        #expect(replay.deactivations == [[7]])
        #expect(
            DueRecords.waits(replay.due, now: fixture.redisNow) == [1: due - fixture.redisNow])
        #expect(fixture.run.applied(fixture.reply(), now: fixture.now) == .goOn)
        #expect(fixture.commit().commit.changed.contains("3:a"))
    }

    @Test("reasons are kept for 5 s to be written again, then forgotten")
    func replayMemory() throws {
        var fixture = RunFixture("...")
        fixture.target = 2
        fixture.commit()
        #expect(fixture.send() == [0, 1])
        fixture.record(0, .rejected(reason: "Old"))
        fixture.commit()
        fixture.pass(milliseconds: 5001)
        fixture.record(1, .rejected(reason: "New"))
        fixture.commit()
        _ = fixture.run.makeCommit(now: fixture.now, target: 2)
        #expect(fixture.run.applied(fixture.reply(.rolledBack), now: fixture.now) == .replay)
        let replay = try #require(fixture.run.commitToRepeat)
        #expect(replay.reasons.map(\.text) == ["New"])
        #expect(replay.changed.hasPrefix("0:rr"))
    }

    @Test("a lost claim is taken back with a new fence and the whole ledger")
    func reassert() throws {
        var fixture = RunFixture("...")
        fixture.target = 2
        fixture.commit()
        #expect(fixture.send() == [0, 1])
        fixture.record(0, .accepted)
        let commit = fixture.run.makeCommit(now: fixture.now, target: 2)
        #expect(
            fixture.run.applied(fixture.reply(.claimRolledBack), now: fixture.now) == .reassert)
        var taken = fixture.run.fence
        taken.epoch += 1
        fixture.run.reasserted(taken, now: fixture.now)
        let replay = try #require(fixture.run.commitToRepeat)
        #expect(replay.isReplay)
        #expect(replay.fence == taken)
        #expect(replay.number == commit.number)
        #expect(replay.changed == "0:a>>")
        #expect(fixture.run.applied(fixture.reply(), now: fixture.now) == .goOn)
        fixture.record(1, .accepted)
        #expect(fixture.run.makeCommit(now: fixture.now, target: 2).fence == taken)
    }

    @Test("a finished run can be opened again to repeat its last commit unchanged")
    func reopen() throws {
        var fixture = RunFixture(".")
        fixture.commit()
        #expect(fixture.send() == [0])
        fixture.record(0, .accepted)
        let last = fixture.run.makeCommit(now: fixture.now, target: 1)
        #expect(fixture.run.applied(fixture.reply(.done), now: fixture.now) == .finished)
        let opened = fixture.run.reopen()
        let again = try #require(opened)
        #expect(again.number == last.number)
        #expect(again.changed == last.changed)
        #expect(fixture.run.applied(fixture.reply(.done), now: fixture.now) == .finished)
    }
}
