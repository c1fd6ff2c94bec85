import Base
import Redis
import TestKit
import Testing

@testable import Campaign
@testable import JobQueue

@Suite("Commits that replicas acknowledge", .timeLimit(.minutes(1)))
struct DurabilityTests {
    /// A campaign of ten recipients whose commits one replica has to acknowledge.
    struct Fixture {
        let queue: QueueFixture
        let replica: RedisServer
        let fence: Fence

        init() throws {
            queue = try QueueFixture()
            replica = try RedisServer(replicaOf: queue.server)
            try queue.campaign("c", [10])
            fence = try #require(try queue.claim("n")).fence
            queue.store.replicas = 1
        }

        func commit(_ number: Int, _ text: String) -> Commit {
            var commit = Commit(fence: fence, number: number)
            let old = [UInt8](repeating: UInt8(ascii: "."), count: text.utf8.count)
            commit.changes = [.init(offset: 0, known: old, bytes: Array(text.utf8))]
            return commit
        }

        func error(_ commit: Commit) -> RedisError? {
            #expect(throws: RedisError.self) { try queue.store.commit([commit]) }
        }

        var replicaLedger: String? {
            get throws { try replica.command("GET", "t:campaign:c:shard:0:ledger").string }
        }
    }

    @Test("a commit is answered when the replica has it, and so is a repeat of it")
    func acknowledged() throws {
        let fixture = try Fixture()
        let commit = fixture.commit(1, ">>>>>")
        for _ in 0..<2 {
            let reply = try fixture.queue.store.commit([commit])[0].get()
            #expect(reply.status == .ok)
            #expect(try fixture.replicaLedger == ">>>>>.....")
        }
        #expect(try fixture.queue.command("PTTL", "t:confirm:test").integer ?? 0 > 0)
        #expect(
            try #require(try fixture.queue.store.reassert(worker: "w", fixture.fence)).epoch
                > fixture.fence.epoch)
    }

    @Test("while the replica is frozen nothing is confirmed, and after it the repeat is")
    func frozen() throws {
        let fixture = try Fixture()
        let commit = fixture.commit(1, ">>>>>")
        fixture.replica.freeze()
        let error = fixture.error(commit)
        #expect(error?.code == .unconfirmed)
        #expect(error?.isTransient == true)
        #expect(error?.description.contains("0 of 1 replicas") == true)
        // The next call looks again where the master is.
        #expect(!fixture.queue.redis.isConnected)
        #expect(try fixture.queue.ledger("c") == ">>>>>.....")
        let taken = #expect(throws: RedisError.self) {
            try fixture.queue.store.reassert(worker: "w", fixture.fence)
        }
        #expect(taken?.code == .unconfirmed)
        fixture.replica.thaw()
        try blockUntil("the replica acknowledges again") {
            try fixture.queue.command("WAIT", "1", "100").integer == 1
        }
        // The repeat changes nothing, so that only the mark behind it can be waited for.
        var repeated = commit
        let fence = try fixture.queue.store.reassert(worker: "w", fixture.fence)
        repeated.fence = try #require(fence)
        #expect(try fixture.queue.store.commit([repeated])[0].get().status == .ok)
        #expect(try fixture.replicaLedger == ">>>>>.....")
    }

    @Test("a repeat on a new connection is not taken for confirmed while the replica is frozen")
    func repeatedWhileFrozen() throws {
        let fixture = try Fixture()
        let commit = fixture.commit(1, ">>>>>")
        fixture.replica.freeze()
        for _ in 0..<2 { #expect(fixture.error(commit)?.code == .unconfirmed) }
        fixture.replica.kill()
        #expect(fixture.error(commit)?.code == .unconfirmed)
        fixture.queue.store.replicas = 0
        #expect(try fixture.queue.store.commit([commit])[0].get().status == .ok)
    }

    @Test("a full Redis still confirms")
    func outOfMemory() throws {
        let fixture = try Fixture()
        try fixture.queue.command("CONFIG", "SET", "maxmemory", "1")
        let reply = try fixture.queue.store.commit([fixture.commit(1, ">>>")])[0].get()
        #expect(reply.status == .ok)
        #expect(try fixture.replicaLedger == ">>>.......")
    }

    @Test("commits that reach a demoted master fail as its refusal, which may pass")
    func demoted() throws {
        let fixture = try Fixture()
        try fixture.replica.command("REPLICAOF", "NO", "ONE")
        try fixture.queue.command("REPLICAOF", "127.0.0.1", "\(fixture.replica.port)")
        let error = fixture.error(fixture.commit(1, ">>>"))
        #expect(error?.word == "READONLY")
        #expect(error?.isTransient == true)
        #expect(!fixture.queue.redis.isConnected)
    }
}
