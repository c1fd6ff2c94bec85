import Base
import Campaign

/// A shard run with its own time and a Redis that answers as it is told.
struct RunFixture {
    static let fence = Fence(campaign: "c", shard: 0, plan: "p", epoch: 1, nonce: "n")
    static let redisStart: Int64 = 1_796_000_000_000

    var run: ShardRun
    var now = Instant(nanoseconds: 5_000_000_000_000)
    var target = 16

    /// The ledger as it was claimed has one byte for each recipient.
    init(
        _ ledger: String, due: [UInt8] = [], unknowns: [UInt8] = [], suspects: [Int: Int] = [:],
        resendsUnknown: Bool = true, deadline: Int64? = nil, table: RecipientTable? = nil
    ) {
        var policy = RunPolicy()
        policy.resendsUnknown = resendsUnknown
        policy.deadlineMilliseconds = deadline
        run = ShardRun(
            fence: Self.fence, policy: policy,
            recipients: table ?? Self.recipients(ledger.utf8.count), ledger: Array(ledger.utf8),
            due: due, unknowns: unknowns, suspects: Self.records(suspects),
            redisMilliseconds: Self.redisStart, now: now)
    }

    /// Levels of suspects as Redis keeps them.
    static func records(_ suspects: [Int: Int]) -> [UInt8] {
        suspects.sorted { $0.key < $1.key }.flatMap { index, level in
            withUnsafeBytes(of: UInt32(index).littleEndian) { Array($0) } + [UInt8(level)]
        }
    }

    /// Recipients that are all different.
    static func recipients(_ count: Int) -> RecipientTable {
        var writer = WindowWriter()
        var windows: [[UInt8]] = []
        for index in 0..<count {
            if !writer.hasRoom(for: 8) { windows.append(writer.take().bytes) }
            withUnsafeBytes(of: UInt64(index)) { writer.append(token: $0) }
        }
        windows.append(writer.take().bytes)
        guard let table = RecipientTable(windows: windows) else {
            preconditionFailure("the windows of the fixture are well-formed")
        }
        return table
    }

    var ledger: String { String(decoding: run.ledger, as: UTF8.self) }
    var redisNow: Int64 { run.redisMilliseconds(now) }

    mutating func pass(milliseconds: Int) { now = now + Nanoseconds.milliseconds(milliseconds) }

    func reply(
        _ status: CommitReply.Status = .ok, campaign: String = "running", left: Int = 1
    ) -> CommitReply {
        CommitReply(
            status: status, campaignState: campaign, nowMilliseconds: redisNow, left: left)
    }

    /// Makes a commit that Redis takes at once.
    @discardableResult
    mutating func commit(
        _ status: CommitReply.Status = .ok, campaign: String = "running"
    ) -> (commit: Commit, step: ShardRun.Step) {
        let commit = run.makeCommit(now: now, target: target)
        return (commit, run.applied(reply(status, campaign: campaign), now: now))
    }

    /// All that may be sent now.
    mutating func send() -> [Int] {
        var sent: [Int] = []
        while let index = run.nextToSend(now: now) { sent.append(index) }
        return sent
    }

    mutating func record(_ index: Int, _ result: PushResult, latency: Int? = 20) {
        run.record(index, result, latencyMilliseconds: latency, now: now)
    }
}

extension Commit {
    /// The changed stretches as text: `0:>>> 40:a`.
    var changed: String {
        changes.map { "\($0.offset):\(String(decoding: $0.bytes, as: UTF8.self))" }
            .joined(separator: " ")
    }
}
