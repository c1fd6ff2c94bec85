import Campaign
import JobQueue
import Redis
import TestKit
import Testing

@Suite("Intake", .timeLimit(.minutes(1)))
struct IntakeTests {
    @Test("a job is registered once; the same again is a duplicate, another content a conflict")
    func register() throws {
        let queue = try QueueFixture()
        #expect(try queue.register("a", fields: ["app": "shop", "weight": "2"]) == .accepted)
        #expect(try queue.store.takenJobs(worker: "w") == [])
        #expect(try queue.register("a") == .duplicate)
        #expect(try queue.store.takenJobs(worker: "w") == [])
        #expect(try queue.register("a", digest: "d2") == .conflict)
        // The caller buries it, so it stays on the list until then.
        #expect(try queue.store.takenJobs(worker: "w").count == 1)
        let report = try #require(try queue.store.report("a"))
        #expect(report.state == "planning")
        #expect(report.fields["app"] == "shop")
        #expect(try queue.store.job("a") == Array("job a d1".utf8))
        #expect(try queue.store.campaigns() == ["a"])
        #expect(try queue.list("plans") == ["a"])
        #expect(try queue.list("events").count == 1)
    }

    @Test("registering again after a lost reply answers duplicate and changes nothing")
    func lostReply() throws {
        let queue = try QueueFixture()
        let job = Array("job".utf8)
        try queue.store.enqueue(job)
        #expect(try queue.store.takeJob(worker: "w", waiting: 1) == job)
        for expected in [JobStore.Registration.accepted, .duplicate] {
            let result = try queue.store.register(
                worker: "w", raw: job, id: "a", digest: "d", fields: ["app": "b"])
            #expect(result == expected)
        }
        #expect(try queue.list("plans") == ["a"])
        #expect(try queue.store.takenJobs(worker: "w") == [])
        #expect(try queue.field("stats", "jobs_accepted") == "1")
    }

    @Test("jobs are taken in the order in which they were enqueued, and none is an answer too")
    func order() throws {
        let queue = try QueueFixture()
        for job in ["1", "2"] { try queue.store.enqueue(Array(job.utf8)) }
        #expect(try queue.store.takeJob(worker: "w", waiting: 1) == Array("1".utf8))
        #expect(try queue.store.takeJob(worker: "w", waiting: 1) == Array("2".utf8))
        #expect(try queue.store.takeJob(worker: "w", waiting: 1) == nil)
    }

    @Test("a bad job moves to the dead letters once, also when the call is repeated")
    func dead() throws {
        let queue = try QueueFixture()
        try queue.store.enqueue([1])
        _ = try queue.store.takeJob(worker: "w", waiting: 1)
        for _ in 0..<2 {
            try queue.store.bury(worker: "w", raw: [1], letter: Array("letter".utf8))
        }
        #expect(try queue.list("dead") == ["letter"])
        #expect(try queue.store.takenJobs(worker: "w") == [])
        #expect(try queue.field("stats", "jobs_dead") == "1")
    }

    @Test("jobs of a dead worker go back to the front, those of a living one stay")
    func orphans() throws {
        let queue = try QueueFixture()
        for job in ["1", "2", "3"] { try queue.store.enqueue(Array(job.utf8)) }
        _ = try queue.store.heartbeat(worker: "dead", fields: ["host": "h"], holds: [])
        for _ in 0..<2 { _ = try queue.store.takeJob(worker: "dead", waiting: 1) }
        #expect(try queue.store.adoptOrphans(of: "dead") == 0)
        #expect(try queue.store.takenJobs(worker: "dead").count == 2)
        try queue.command("ZADD", "t:workers", "1", "dead")
        #expect(try queue.store.expired().workers == ["dead"])
        #expect(try queue.store.adoptOrphans(of: "dead") == 2)
        #expect(try queue.store.expired().workers == [])
        for job in ["1", "2", "3"] {
            #expect(try queue.store.takeJob(worker: "w", waiting: 1) == Array(job.utf8))
        }
    }

    @Test("a heartbeat of before the clock jumped back keeps no dead worker's jobs")
    func clockJump() throws {
        let queue = try QueueFixture()
        let now = try #require(try queue.command("TIME").array?.first?.integer) * 1000
        try queue.command("ZADD", "t:workers", String(now + 720_000), "dead")
        #expect(try queue.store.expired().workers == [])
        let seen = try #require(try queue.command("ZSCORE", "t:workers", "dead").integer)
        #expect((now...now + 60_000).contains(seen))
    }

    @Test("a worker that ends in good order leaves the list and gives its jobs back")
    func retire() throws {
        let queue = try QueueFixture()
        try queue.store.enqueue([1])
        _ = try queue.store.heartbeat(worker: "w", fields: ["host": "h"], holds: [])
        _ = try queue.store.takeJob(worker: "w", waiting: 1)
        try queue.store.retire(worker: "w")
        #expect(try queue.store.length("jobs") == 1)
        #expect(try queue.command("EXISTS", "t:workers", "t:worker:w").integer == 0)
    }

    @Test("a campaign is paused and resumed by name, and an unknown one is said to be so")
    func control() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [1])
        #expect(try queue.store.control(campaign: "a", .pause, reason: "why") == "paused")
        #expect(try queue.store.report("a")?.fields["reason"] == "why")
        #expect(try queue.claim("n1") == nil)
        #expect(try queue.store.control(campaign: "a", .pause, reason: "why") == "paused")
        #expect(try queue.store.control(campaign: "a", .resume, reason: "") == "running")
        #expect(try queue.claim("n2")?.fence.campaign == "a")
        #expect(try queue.store.control(campaign: "b", .pause, reason: "") == nil)
    }

    @Test("what is left to do is counted until nothing is")
    func idle() throws {
        let queue = try QueueFixture()
        #expect(try queue.store.idle().isIdle)
        try queue.store.enqueue([1])
        #expect(try queue.store.idle().jobs == 1)
        try queue.command("DEL", "t:jobs")
        try queue.campaign("a", [1])
        #expect(try queue.store.idle().claimable == 1)
        let shard = try #require(try queue.claim("n"))
        #expect(try queue.store.idle().leases == 1)
        #expect(try queue.claim("n2") == nil)
        #expect(try queue.commit(shard.fence, 1, [(0, "a")]).status == .done)
        #expect(try queue.store.idle().isIdle)
    }
}
