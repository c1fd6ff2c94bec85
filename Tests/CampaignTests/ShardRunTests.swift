import Base
import Campaign
import Testing

@Suite("Shard run")
struct ShardRunTests {
    @Test("recipients are marked first and handed out only when Redis confirmed the marks")
    func marksFirst() {
        var fixture = RunFixture("....")
        fixture.target = 3
        #expect(fixture.send() == [])
        let commit = fixture.run.makeCommit(now: fixture.now, target: 3)
        #expect(commit.changed == "0:>>>")
        #expect(commit.number == 1)
        #expect(fixture.send() == [])
        #expect(fixture.run.applied(fixture.reply(), now: fixture.now) == .goOn)
        #expect(fixture.send() == [0, 1, 2])
        #expect(fixture.run.outstanding == 3)
        #expect(fixture.run.onWire == 3)
        #expect(fixture.commit().commit.changed == "")
    }

    @Test("a mark is not handed out 10 s after its commit, and again after the next commit")
    func oldMarks() {
        var fixture = RunFixture("..")
        fixture.commit()
        fixture.pass(milliseconds: 9999)
        #expect(fixture.run.nextToSend(now: fixture.now) == 0)
        fixture.pass(milliseconds: 1)
        #expect(fixture.run.nextToSend(now: fixture.now) == nil)
        #expect(fixture.run.sendable == 1)
        fixture.commit()
        #expect(fixture.run.nextToSend(now: fixture.now) == 1)
    }

    @Test("a run has work until its last mark is handed out, not while it waits to send again")
    func hasWork() {
        var fixture = RunFixture("..")
        fixture.target = 1
        fixture.commit()
        #expect(fixture.send() == [0])
        #expect(fixture.run.hasWork)  // 1 is untouched
        _ = fixture.run.makeCommit(now: fixture.now, target: 2)
        #expect(fixture.run.hasWork)  // 1 is marked, not confirmed
        _ = fixture.run.applied(fixture.reply(), now: fixture.now)
        #expect(fixture.run.hasWork)
        #expect(fixture.send() == [1])
        #expect(!fixture.run.hasWork)
        fixture.record(0, .retry(reason: "TooManyRequests", delayMilliseconds: 2000))
        fixture.record(1, .accepted)
        fixture.commit()
        #expect(!fixture.run.hasWork)
        fixture.pass(milliseconds: 2000)
        fixture.commit()
        #expect(fixture.run.hasWork)
        #expect(fixture.send() == [0])
    }

    @Test("the life of a mark begins when its commit was made, not when it was answered")
    func slowReply() {
        var fixture = RunFixture("..")
        _ = fixture.run.makeCommit(now: fixture.now, target: 2)
        fixture.pass(milliseconds: 10_000)
        #expect(fixture.run.applied(fixture.reply(), now: fixture.now) == .goOn)
        #expect(fixture.send() == [])
    }

    @Test("every outcome becomes its byte, its reason, its event and its counters")
    func outcomes() throws {
        var fixture = RunFixture("........")
        fixture.commit()
        #expect(fixture.send().count == 8)
        fixture.record(0, .accepted)
        fixture.record(1, .gone(reason: "Unregistered", event: [1]))
        fixture.record(2, .quarantined(reason: "BadDeviceToken", entry: [2]))
        fixture.record(3, .rejected(reason: "PayloadEmpty"))
        fixture.record(4, .retry(reason: "TooManyRequests", delayMilliseconds: 2000))
        fixture.record(5, .retry(reason: "TooManyRequests", delayMilliseconds: nil))
        fixture.record(6, .unknown(reason: "Timeout", delayMilliseconds: 1000), latency: nil)
        fixture.record(7, .held(reason: "BadTopic"))
        let commit = fixture.run.makeCommit(now: fixture.now, target: 0)
        #expect(commit.changed == "0:agqr1r1.")
        #expect(
            commit.reasons.map { "\($0.index) \($0.text)" } == [
                "1 Unregistered", "2 BadDeviceToken", "3 PayloadEmpty", "5 TooManyRequests",
            ])
        #expect(commit.deactivations == [[1]])
        #expect(commit.quarantined == [[2]])
        #expect(commit.unknowns == [6, 0, 0, 0])
        let redis = fixture.redisNow
        #expect(DueRecords.waits(commit.due, now: redis) == [4: 2000, 6: 1000])
        #expect(
            commit.counters == [
                "answers": 7, "retries": 2, "unanswered": 1, "reason:Unregistered": 1,
                "reason:BadDeviceToken": 1, "reason:PayloadEmpty": 1,
                "reason:TooManyRequests": 2, "reason:Timeout": 1, "reason:BadTopic": 1,
            ])
        #expect(commit.latency.map { "\($0.bucket)=\($0.count)" } == ["24=7"])
        #expect(commit.finish == .goOn)
        #expect(fixture.run.outstanding == 0)
    }

    @Test("a retry waits for its time, is sent with its letter and counts one more try")
    func retries() {
        var fixture = RunFixture(".")
        fixture.commit()
        for tries in 1...3 {
            #expect(fixture.send() == [0])
            fixture.record(0, .retry(reason: "TooManyRequests", delayMilliseconds: 1000))
            #expect(fixture.run.tries(0) == tries)
            fixture.pass(milliseconds: 999)
            fixture.commit()
            #expect(fixture.send() == [])
            fixture.pass(milliseconds: 1)
            fixture.commit()
            #expect(fixture.ledger == ["A", "B", "C"][tries - 1])
            #expect(fixture.run.tries(0) == tries)
        }
    }

    @Test("the tenth try is none: after nine charged tries a recipient is rejected")
    func tenTries() {
        var fixture = RunFixture("9")
        fixture.pass(milliseconds: 1000)
        fixture.commit()
        #expect(fixture.ledger == "I")
        #expect(fixture.send() == [0])
        fixture.record(0, .retry(reason: "TooManyRequests", delayMilliseconds: 1))
        #expect(fixture.ledger == "r")
    }

    @Test("an unknown outcome is sent again once under resend, and the second one is final")
    func unknownResend() {
        var fixture = RunFixture(".")
        fixture.commit()
        #expect(fixture.send() == [0])
        fixture.record(0, .unknown(reason: "Timeout", delayMilliseconds: 0), latency: nil)
        #expect(fixture.ledger == "1")
        fixture.commit()
        #expect(fixture.send() == [0])
        fixture.record(0, .unknown(reason: "Timeout", delayMilliseconds: 0), latency: nil)
        #expect(fixture.ledger == "u")
    }

    @Test("an unknown outcome is final at once under skip, or when its budget was spent before")
    func unknownFinal() {
        for fixture in [
            RunFixture("..", resendsUnknown: false), RunFixture("..", unknowns: [0, 0, 0, 0]),
        ] {
            var fixture = fixture
            fixture.commit()
            #expect(fixture.send() == [0, 1])
            fixture.record(0, .unknown(reason: "Timeout", delayMilliseconds: 0), latency: nil)
            let commit = fixture.commit().commit
            #expect(commit.changed == "0:u")
            #expect(commit.reasons.map(\.text) == ["Timeout"])
        }
    }

    @Test("what was proven not processed is sent again three times uncharged, then waits")
    func notProcessed() {
        var fixture = RunFixture(".")
        fixture.commit()
        for _ in 0..<3 {
            #expect(fixture.send() == [0])
            fixture.record(0, .notProcessed, latency: nil)
            #expect(fixture.ledger == ">")
        }
        #expect(fixture.send() == [0])
        fixture.record(0, .notProcessed, latency: nil)
        #expect(fixture.ledger == ".")
        #expect(fixture.run.tries(0) == 0)
        #expect(fixture.send() == [])
        fixture.commit()
        #expect(fixture.send() == [0])
    }

    @Test("a retry that is refused keeps its tries and waits a second")
    func refusedRetry() {
        var fixture = RunFixture("2")
        fixture.pass(milliseconds: 1000)
        fixture.commit()
        for _ in 0..<4 {
            #expect(fixture.send() == [0])
            fixture.record(0, .notProcessed, latency: nil)
        }
        #expect(fixture.ledger == "2")
        fixture.pass(milliseconds: 999)
        fixture.commit()
        #expect(fixture.send() == [])
        fixture.pass(milliseconds: 1)
        fixture.commit()
        #expect(fixture.send() == [0])
    }

    @Test("duplicates and invalid tokens are skipped with their reason and never handed out")
    func skipped() throws {
        var writer = WindowWriter()
        for text in ["a", "b", "a"] {
            Array(text.utf8).withUnsafeBytes { writer.append(token: $0) }
        }
        Array("no token".utf8).withUnsafeBytes { writer.append(invalid: $0) }
        let table = try #require(RecipientTable(windows: [writer.take().bytes]))
        var fixture = RunFixture("....", table: table)
        let commit = fixture.commit().commit
        #expect(fixture.ledger == ">>ss")
        #expect(commit.counters == ["reason:Duplicate": 1, "reason:InvalidToken": 1])
        let reasons = Set(commit.reasons.map { "\($0.index) \($0.text)" })
        #expect(reasons == ["2 Duplicate", "3 InvalidToken"])
        #expect(fixture.send() == [0, 1])
    }
}
