import Base
import JobQueue
import Redis
import TestKit
import Testing

@testable import Campaign

@Suite("Results of recipients", .timeLimit(.minutes(1)))
struct ResultsTests {
    private func results(
        _ queue: QueueFixture, _ shard: Int = 0,
        of outcomes: Set<RecipientClass> = Set(RecipientClass.allCases), atMost limit: Int = .max
    ) throws -> (found: [RecipientResult], size: Int) {
        var found: [RecipientResult] = []
        let size = try queue.store.results("a", shard: shard, outcomes: outcomes) {
            found.append($0)
            return found.count < limit
        }
        return (found, size)
    }

    /// A campaign of one shard with `windows` windows of `each` recipients.
    private func campaign(_ queue: QueueFixture, windows: Int, each: Int) throws {
        try queue.register("a")
        let plan = try #require(try queue.store.claimPlan(worker: "w", plan: "p"))
        try queue.store.clearPlan(plan, shards: 1)
        for number in 0..<windows {
            var writer = WindowWriter()
            for index in 0..<each {
                let token = Array("\(number)-\(index)".utf8)
                token.withUnsafeBytes {
                    if index == 0 { writer.append(invalid: $0) } else { writer.append(token: $0) }
                }
            }
            let (bytes, count) = writer.take()
            try queue.store.writePlan(
                plan, call: number + 1,
                [PlanBuilder.Window(shard: 0, count: count, bytes: bytes)])
        }
        try queue.store.closePlan(plan, first: 0, last: 0)
        try queue.store.finishPlan(plan, openShards: 1, total: windows * each)
    }

    @Test("each recipient comes once, in order, with outcome and reason, over many windows")
    func all() throws {
        let queue = try QueueFixture()
        try campaign(queue, windows: 10, each: 3)
        let shard = try #require(try queue.claim("n"))
        let bytes = "sagsqrs>1sAusxcs" + String(repeating: "a", count: 13) + "u"
        _ = try queue.commit(shard.fence, 1, [(0, bytes)]) {
            $0.reasons = [
                (index: 0, text: "InvalidToken"), (index: 2, text: "Unregistered"),
                (index: 29, text: "WorkerLost"),
            ]
        }
        let (found, size) = try results(queue)
        #expect(size == 30)
        #expect(found.map(\.position) == Array(0..<30))
        #expect(
            found.map(\.outcome) == bytes.utf8.compactMap { LedgerByte.recipientClass($0) })
        #expect(found.map(\.isToken) == (0..<30).map { $0 % 3 != 0 })
        #expect(
            found.map(\.content) == (0..<30).map { Array("\($0 / 3)-\($0 % 3)".utf8) })
        var reasons = Array(repeating: "", count: 30)
        (reasons[0], reasons[2], reasons[29]) = ("InvalidToken", "Unregistered", "WorkerLost")
        #expect(found.map(\.reason) == reasons)
        #expect(try results(queue, atMost: 2).found.count == 2)
    }

    @Test("only the wanted classes come, also from a shard at which nobody works any more")
    func filtered() throws {
        let queue = try QueueFixture()
        try queue.campaign("a", [4, 0, 1])
        #expect(try results(queue, of: [.untouched]).found.count == 4)
        let first = try #require(try queue.claim("n"))
        _ = try queue.commit(first.fence, 1, [(0, "au.1")])
        #expect(try results(queue, of: [.unknown, .deferred]).found.map(\.position) == [1, 3])
        _ = try queue.commit(first.fence, 2, [(2, "au")])
        #expect(try results(queue, of: [.unknown]).found.map(\.position) == [1, 3])
        let none = try results(queue, of: [.gone, .untouched])
        #expect(none.found.isEmpty)
        #expect(none.size == 4)
        #expect(try results(queue, 1).size == 0)
        #expect(try results(queue, 2).size == 1)
    }

    @Test("a shard that does not hold together is an error, never a short answer")
    func broken() throws {
        for broken in ["ledger", "recipients", "byte", "window"] {
            let queue = try QueueFixture()
            try queue.campaign("a", [4])
            let shard = "t:campaign:a:shard:0"
            switch broken {
            case "byte": try queue.command("SETRANGE", "\(shard):ledger", "1", "?")
            case "window": try queue.command("LSET", "\(shard):recipients", "0", "?")
            default: try queue.command("DEL", "\(shard):\(broken)")
            }
            #expect(throws: ShardUnreadable.self) { try results(queue) }
        }
    }

    @Test("a plan that waits says so in its campaign until it goes on")
    func waiting() throws {
        let queue = try QueueFixture()
        try queue.register("a")
        let plan = try #require(try queue.store.claimPlan(worker: "w", plan: "p"))
        try queue.store.clearPlan(plan, shards: 1)
        try queue.command("CONFIG", "SET", "maxmemory", "1")
        let refused = #expect(throws: RedisError.self) {
            try queue.store.writePlan(plan, call: 1, queue.windows([1]))
        }
        #expect(refused?.word == "OOM")
        try queue.store.notePlan(plan, waiting: "no memory")
        #expect(try queue.store.report("a")?.fields["reason"] == "no memory")
        #expect(try queue.store.report("a")?.state == "planning")
        let probe = #expect(throws: RedisError.self) { try queue.store.probe(worker: "w") }
        #expect(probe?.word == "OOM")
        try queue.command("CONFIG", "SET", "maxmemory", "0")
        try queue.store.probe(worker: "w")
        #expect(try queue.command("PTTL", "t:probe:w").integer ?? 0 > 0)
        try queue.store.notePlan(plan, waiting: nil)
        #expect(try queue.store.report("a")?.fields["reason"] == nil)
        // Whoever plans it next starts without the reason of the one before.
        try queue.store.notePlan(plan, waiting: "no memory")
        try queue.store.releasePlan(plan)
        #expect(throws: JobStore.PlanFenced.self) {
            try queue.store.notePlan(plan, waiting: "too late")
        }
        let next = try #require(try queue.store.claimPlan(worker: "w2", plan: "p2"))
        #expect(try queue.store.report("a")?.fields["reason"] == nil)
        try queue.store.notePlan(next, waiting: "no memory")
        try queue.store.clearPlan(next, shards: 1)
        try queue.store.writePlan(next, call: 1, queue.windows([1]))
        try queue.store.closePlan(next, first: 0, last: 0)
        try queue.store.finishPlan(next, openShards: 1, total: 1)
        #expect(try queue.store.report("a")?.fields["reason"] == nil)
        #expect(try queue.store.report("a")?.state == "running")
    }
}
