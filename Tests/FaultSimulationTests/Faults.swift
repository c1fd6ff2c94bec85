import Base

/// What goes wrong in one run, and when: drawn from the seed.
final class Faults {
    /// What the run may lose: this decides what its checker may ask for.
    enum Kind: String {
        /// Redis keeps what it confirmed.
        case steady
        /// Redis goes back to older data; nobody dies or is held up.
        case rollback
        /// Everything at once.
        case all
    }

    /// What becomes of one call.
    enum Fate: Equatable {
        case fine
        /// It does not reach Redis.
        case lostRequest
        /// It is executed, the answer gets lost.
        case lostReply
        /// It is given up by the worker and executed after so many milliseconds.
        case late(Int)
        case killBefore, killAfter
        /// The worker is held up with the answer.
        case freeze
        /// The answer gets lost and Redis forgets the call.
        case rollBack
        /// Redis forgets this call and what follows, at a later call.
        case copy, rollBackToCopy
        /// The worker is held up for about as long as it takes until others have its shards.
        case longFreeze
        /// The worker is held up until others have its shards, and Redis forgets its claim.
        case away

        var isExecuted: Bool {
            switch self {
            case .lostRequest, .late, .killBefore: false
            default: true
            }
        }
    }

    /// Milliseconds at which faults begin and end.
    static let begin = 500
    static let end = 15_000
    /// A call of a connection that was given up comes so late at most.
    static let lateLimit = 3000

    /// Steps at which armed faults strike.
    private static let steps = [
        "commit", "commit", "commit", "claim", "plan_claim", "plan_clear", "plan_write",
        "plan_close", "plan_finish", "register", "heartbeat", "reclaim", "reassert", "lrange",
        "blmove", "send", "send", "chore", "controls",
    ]

    let kind: Kind
    /// The share of calls that go wrong.
    let loss: Double
    private let world: World
    private var armed: [(from: Int64, step: String, fate: Fate)] = []
    /// The worker that is held up at its next commit.
    private var follows: String?
    /// Redis forgets a claim whose owner is held up; or, where nobody is, the end of a shard.
    private(set) var isWatched: Bool
    /// No call goes wrong before this moment: owners come back to a Redis that was rolled back.
    var quietUntil: Instant

    init(_ world: World) {
        self.world = world
        quietUntil = world.now
        let number = world.pick(0...99)
        kind = number < 45 ? .steady : number < 70 ? .rollback : .all
        loss = [0, 0.005, 0.02, 0.05][world.pick(0...3)]
        for _ in 0..<world.pick(0...3) {
            let choices: [Fate] =
                switch kind {
                case .steady: [.killBefore, .killAfter, .freeze, .lostReply]
                case .rollback: [.rollBack, .lostReply]
                case .all: [.killBefore, .killAfter, .freeze, .rollBack, .rollBack]
                }
            armed.append(
                (
                    Int64(world.pick(0...12_000)),
                    Faults.steps[world.pick(0...Faults.steps.count - 1)],
                    choices[world.pick(0...choices.count - 1)]
                ))
        }
        if kind != .steady, world.chance(0.6) {
            let first = world.pick(0...Faults.steps.count - 1)
            let time = Int64(world.pick(0...6000))
            armed.append((time, Faults.steps[first], .copy))
            let second = world.chance(0.5) ? first + 1 : world.pick(0...Faults.steps.count - 1)
            armed.append((time, Faults.steps[second % Faults.steps.count], .rollBackToCopy))
        }
        // Faults that do harm together only.
        if kind == .steady, world.chance(0.25) {
            armed.append((Int64(world.pick(1000...8000)), "commit", .longFreeze))
        }
        isWatched = kind != .steady && world.chance(0.5)
        if loss > 0 {
            for _ in 0..<world.pick(0...2) {
                armed.append(
                    (
                        Int64(world.pick(0...12_000)),
                        Faults.steps[world.pick(0...Faults.steps.count - 1)],
                        .late(world.pick(1...(world.chance(0.5) ? 300 : Faults.lateLimit)))
                    ))
            }
        }
    }

    var isOver: Bool { world.milliseconds >= Int64(Faults.end) }
    var allowsDeaths: Bool { kind != .rollback }
    var allowsRollbacks: Bool { kind != .steady }

    /// What becomes of the next call.
    func fate(of step: String, _ worker: SimulatedWorker) -> Fate {
        guard !isOver, world.milliseconds >= Int64(Faults.begin), world.now >= quietUntil else {
            return .fine
        }
        if let place = armed.firstIndex(where: {
            $0.step == step && $0.from <= world.milliseconds
        }) {
            return armed.remove(at: place).fate
        }
        if step == "commit", follows == worker.id {
            (follows, isWatched) = (nil, false)
            return .away
        }
        guard world.chance(loss) else { return .fine }
        switch world.pick(0...3) {
        case 0: return .lostRequest
        case 1: return .late(world.pick(1...Faults.lateLimit))
        default: return .lostReply
        }
    }

    /// Whether a copy is wanted before this call.
    func wantsCopy(before step: String) -> Bool {
        kind == .all && isWatched && follows == nil && !isOver && step == "claim"
    }

    /// A shard was claimed.
    func claimed(by worker: String) {
        if kind == .all, isWatched, follows == nil, world.chance(0.4) { follows = worker }
    }

    /// A shard ended; true when Redis is to forget that.
    func forgetsEnd() -> Bool {
        guard kind == .rollback, isWatched, !isOver, world.chance(0.4) else { return false }
        isWatched = false
        return true
    }

    /// Whether an armed death strikes at this send.
    func diesAtSend(_ worker: SimulatedWorker) -> Bool {
        guard !isOver, allowsDeaths,
            let place = armed.firstIndex(where: {
                $0.step == "send" && $0.from <= world.milliseconds
            })
        else { return false }
        let fate = armed.remove(at: place).fate
        return fate == .killBefore || fate == .killAfter
    }
}
