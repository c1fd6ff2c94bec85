import Testing

@testable import Campaign

@Suite("Shard run: after the death of a worker")
struct ProbeTests {
    @Test(
        "suspects are sent in company that shrinks with their level",
        arguments: [(1, 256), (2, 16), (3, 1), (4, 1), (5, 1)])
    func company(level: Int, size: Int) {
        var probe = Probe()
        for index in 0..<300 { probe.add(index, level: level) }
        #expect(probe.level == level)
        #expect(probe.next(limit: 4096).count == size)
        #expect(probe.next(limit: 10).count == min(size, 10))
    }

    @Test("the most suspect come first, one by one, then the others, and only then new recipients")
    func order() {
        var fixture = RunFixture("..111", suspects: [2: 3, 3: 3, 4: 1])
        #expect(fixture.run.needsSolitude)
        for index in [3, 2] {
            fixture.commit()
            #expect(fixture.send() == [index])
            // Nothing is added to it while its answer is out.
            fixture.pass(milliseconds: 400)
            fixture.commit()
            #expect(fixture.send() == [])
            #expect(fixture.run.outstanding == 1)
            fixture.record(index, .accepted)
            #expect(fixture.run.needsSolitude)
            fixture.pass(milliseconds: 10)
            #expect(fixture.run.isCommitDue(now: fixture.now, target: 16))
        }
        fixture.commit()
        #expect(!fixture.run.needsSolitude)
        #expect(fixture.send() == [4])
        fixture.record(4, .retry(reason: "TooManyRequests", delayMilliseconds: 0))
        fixture.pass(milliseconds: 10)
        fixture.commit()
        // An answer clears it: it goes with the others from now on.
        #expect(fixture.send() == [4, 0, 1])
    }

    @Test("a suspect whose time has not come, and one that is over, are not sent for that")
    func others() {
        var due: [UInt8] = []
        DueRecords.append(1, at: RunFixture.redisStart + 9000, ahead: 9000, to: &due)
        var fixture = RunFixture("a1.", due: due, suspects: [0: 2, 1: 2])
        #expect(!fixture.run.needsSolitude)
        fixture.commit()
        #expect(fixture.send() == [2])
    }

    @Test("a target of none gives back what was not sent, also while others are on the wire")
    func noTarget() {
        var due: [UInt8] = []
        DueRecords.append(2, at: RunFixture.redisStart, ahead: 0, to: &due)
        var fixture = RunFixture("..1.", due: due)
        fixture.commit()
        #expect(fixture.run.nextToSend(now: fixture.now) == 2)
        fixture.target = 0
        fixture.pass(milliseconds: 10)
        #expect(fixture.run.isCommitDue(now: fixture.now, target: 0))
        let commit = fixture.commit().commit
        #expect(commit.finish == .goOn)
        #expect(fixture.ledger == "..A.")
        #expect(fixture.run.outstanding == 1)
        fixture.record(2, .accepted)
        fixture.target = 16
        fixture.pass(milliseconds: 500)
        fixture.commit()
        let rest = fixture.send()
        #expect(Set(rest) == [0, 1, 3])
    }

    @Test("a deadline and a stop hold for suspects, too")
    func ends() {
        var late = RunFixture("1.", suspects: [0: 1], deadline: RunFixture.redisStart)
        #expect(late.commit().commit.changed == "0:xx")
        var stopped = RunFixture("1.", suspects: [0: 1])
        stopped.run.stop()
        let last = stopped.commit()
        #expect(last.commit.finish == .release)
        #expect(stopped.ledger == "1.")
    }
}
