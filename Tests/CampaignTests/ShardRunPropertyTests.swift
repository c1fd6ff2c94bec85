import Base
import Campaign
import Testing

@Suite("Shard run: any order of events")
struct ShardRunPropertyTests {
    @Test(
        "whatever happens, classes add up, the copy is Redis' ledger, nothing ends twice",
        arguments: 1...60)
    func anyOrder(seed: UInt64) throws {
        var world = World(seed: seed)
        for _ in 0..<20_000 {
            if case .done = world.model.state { break }
            try world.step()
        }
        #expect(world.model.left == 0)
        #expect(world.faults == [])
        #expect(world.model.deactivations >= world.model.recounted[.gone, default: 0])
        for (index, byte) in world.model.ledger.enumerated()
        where byte != LedgerByte.accepted {
            #expect(world.model.reasons[index] != nil, "seed \(seed), recipient \(index)")
        }
    }
}

/// One shard, its run, its Redis and everything that can happen to them.
struct World {
    var random: SeededRandom
    var model: CommitModel
    var run: ShardRun
    var now = Instant(nanoseconds: 1_000_000_000)
    var faults: [String] = []
    private let recipients: RecipientTable
    private let total: Int
    private var onWire: [Int] = []
    private var ended: Set<Int> = []
    private var isRolledBack = false
    private var dueTimes: [Int: Int64] = [:]
    private var earlier: (model: CommitModel, at: Instant)?
    private var underWay: (commit: Commit, ledger: [UInt8])?
    private let redisOffset: Int64 = 1_796_000_000_000
    private let policy: RunPolicy

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
        total = Int.random(in: 1...120, using: &random)
        recipients = RunFixture.recipients(total)
        var policy = RunPolicy()
        policy.resendsUnknown = Bool.random(using: &random)
        if seed % 4 == 0 { policy.deadlineMilliseconds = redisOffset + 30_000 }
        self.policy = policy
        var fence = RunFixture.fence
        fence.epoch = 0
        model = CommitModel(fence: fence, recipients: total)
        model.claim(nonce: "n1")
        run = ShardRun(
            fence: model.fence, policy: policy, recipients: recipients, ledger: model.ledger,
            due: [], unknowns: [], redisMilliseconds: redisOffset + 1000, now: now)
    }

    private var redisNow: Int64 { redisOffset + now.nanoseconds / 1_000_000 }

    private mutating func chance(_ percent: Int) -> Bool {
        Int.random(in: 0..<100, using: &random) < percent
    }

    mutating func step() throws {
        now = now + Nanoseconds.milliseconds(Int.random(in: 1...120, using: &random))
        switch model.state {
        case .done: return
        case .ready, .parked: takeUp()
        case .running: work()
        }
        let counted = model.counts.filter { $0.value != 0 }
        check(counted == model.recounted, "counters and ledger differ")
        check(model.counts.values.reduce(0, +) == total, "the classes do not add up")
    }

    private mutating func work() {
        while chance(70), let index = run.nextToSend(now: now) {
            // After a rollback the marks of before are used until the next commit tells.
            check(
                isRolledBack || LedgerByte.isInFlight(model.ledger[index]),
                "\(index) sent without its mark")
            check(!ended.contains(index), "\(index) sent after its end")
            check(dueTimes[index, default: 0] <= redisNow, "\(index) sent before it was due")
            onWire.append(index)
        }
        while chance(60), !onWire.isEmpty {
            let place = Int.random(in: 0..<onWire.count, using: &random)
            answer(onWire.remove(at: place))
        }
        if underWay == nil, chance(2) { model.campaign = "paused" }
        if underWay == nil, run.isCommitDue(now: now, target: 16) {
            let commit = run.makeCommit(now: now, target: 16)
            underWay = (commit, run.ledger)
        }
        if chance(60) { deliver() }
        if chance(1) { rollBack() }
    }

    private mutating func answer(_ index: Int) {
        let result: PushResult
        switch Int.random(in: 0..<10, using: &random) {
        case 0...4: result = .accepted
        case 5: result = .gone(reason: "Unregistered", event: [1])
        case 6:
            let delay = Int64.random(in: 0...8000, using: &random)
            dueTimes[index] = run.redisMilliseconds(now) + delay
            result = .retry(reason: "TooManyRequests", delayMilliseconds: delay)
        case 7: result = .notProcessed
        case 8: result = .unknown(reason: "Timeout", delayMilliseconds: 100)
        default: result = .rejected(reason: "Forbidden")
        }
        run.record(index, result, latencyMilliseconds: 20, now: now)
        if LedgerByte.recipientClass(run.ledger[index])?.isTerminal ?? true { ended.insert(index) }
    }

    /// Brings the commit under way to Redis; its reply may be lost and the commit be repeated.
    private mutating func deliver() {
        guard let sent = underWay, let commit = run.commitToRepeat else { return }
        if !isRolledBack && model.revision == commit.number - 1 {
            for change in commit.changes {
                let held = model.ledger[change.offset..<change.offset + change.known.count]
                check(Array(held) == change.known, "the run knows another ledger than Redis'")
            }
        }
        _ = chance(20) ? model.apply(commit, nowMilliseconds: redisNow) : nil
        let reply = model.apply(commit, nowMilliseconds: redisNow)
        switch run.applied(reply, now: now) {
        case .replay: underWay = (sent.commit, commitLedger() ?? sent.ledger)
        case .fenced, .reassert: faults.append("fenced without a reason")
        case .goOn, .finished:
            underWay = nil
            isRolledBack = false
            check(model.ledger == sent.ledger, "the copy is not Redis' ledger")
            if chance(30) { earlier = (model, now) }
        }
    }

    private func commitLedger() -> [UInt8]? { run.commitToRepeat?.changes.first?.bytes }

    /// Redis forgets the commits of the last seconds.
    private mutating func rollBack() {
        guard let past = earlier, now - past.at < Nanoseconds.seconds(4),
            past.model.fence == model.fence, case .running = past.model.state,
            case .running = model.state
        else { return }
        model = past.model
        isRolledBack = true
        model.campaign = "running"
    }

    /// A parked or released shard is claimed again, by a worker that knows only what Redis has.
    private mutating func takeUp() {
        check(onWire.isEmpty, "the shard was given back with requests on the wire")
        check(!model.ledger.contains(where: LedgerByte.isInFlight), "given back with marks")
        if case .parked(let time) = model.state {
            now = now + max(0, time - redisNow) * 1_000_000
        }
        model.campaign = "running"
        model.claim(nonce: "n\(model.fence.epoch + 1)")
        earlier = nil
        run = ShardRun(
            fence: model.fence, policy: policy, recipients: recipients, ledger: model.ledger,
            due: model.due, unknowns: model.unknowns, redisMilliseconds: redisNow, now: now)
    }

    private mutating func check(_ holds: Bool, _ what: String) {
        if !holds && faults.count < 5 { faults.append(what) }
    }
}
