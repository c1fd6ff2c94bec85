import Base
import Campaign
import JobQueue
import Redis
import Telemetry

@testable import Worker

/// One worker process of a simulated run: the parts of a real one on virtual threads, each with a
/// connection of its own; they may be killed, frozen and cut off at any step.
final class SimulatedWorker: @unchecked Sendable {
    /// Between two turns of the send loop, in milliseconds.
    private static let beat = 50
    /// Between two turns of the recovery: longer than a real one's, to save time.
    private static let recoveryPause = 1000

    let id: String
    let world: World
    unowned let simulation: Simulation
    private(set) var isAlive = true
    /// When it was killed.
    private(set) var diedAt: Instant?
    private(set) var isDraining = false
    /// Held up until then.
    private var frozenUntil: Instant
    /// All the time for which it was frozen.
    private var frozenTime: Int64 = 0
    /// Cannot reach Redis until then.
    private var cutUntil: Instant
    /// It was frozen or cut off for so long that it may have lost what it held.
    private(set) var lastAbsence: Instant?
    private var parts: Parts?
    /// Notifications that may be sent now.
    private var budget = 0.0
    private var requests: [ShardExchange.Request] = []
    private var exchangeWake: ((Int64) -> Void)?

    /// What the process is made of.
    private struct Parts {
        let shared: WorkerShared
        let desk: RunDesk
        let lane: SimulatedLane
        let exchange: ShardExchange
    }
    private var made: Parts {
        guard let parts else { preconditionFailure("a worker is made with its parts") }
        return parts
    }
    private var shared: WorkerShared { made.shared }
    var desk: RunDesk { made.desk }
    var lane: SimulatedLane { made.lane }
    private var exchange: ShardExchange { made.exchange }

    var isFrozen: Bool { world.now < frozenUntil }
    var isCut: Bool { world.now < cutUntil }
    /// The worker's clock; it goes on while it is frozen, unless that is the mistake.
    var clock: Instant {
        simulation.mutant.stopsClock ? world.now + -frozenTime : world.now
    }

    init(_ simulation: Simulation, _ id: String, marks: Int) {
        (self.simulation, self.id, world) = (simulation, id, simulation.world)
        frozenUntil = world.now
        cutUntil = world.now
        let shared = WorkerShared(
            id: id, settings: simulation.settings, apps: simulation.apps, credentials: [:],
            log: Log(level: .error),
            outside: Outside(
                now: { [unowned self] in clock },
                sleep: { [unowned self] _ in pause(milliseconds: world.pick(30...500)) },
                random: { [unowned self] in world.next() }))
        guard let profile = simulation.apps["app"] else { preconditionFailure("the app is known") }
        let lane = SimulatedLane(self, profile, marks: marks)
        let desk = RunDesk(
            RunDesk.Surroundings(
                settings: simulation.settings, log: Log(level: .error),
                lane: { _ in lane }, ask: { [unowned self] in ask($0) },
                hold: { fence, isHeld in shared.hold(.shard(fence), isHeld) },
                nonce: { [unowned self] in String(world.next(), radix: 16) },
                isStopping: { shared.isStopping }),
            seed: world.next())
        let exchange = ShardExchange(shared) { [unowned self] answers in answered(answers) }
        parts = Parts(shared: shared, desk: desk, lane: lane, exchange: exchange)
    }

    /// Starts its threads and its loop.
    func start() {
        spawn("exchange") { [self] in exchangeShards($0) }
        spawn("heartbeat") { [self] in beatHeart($0) }
        spawn("recovery") { [self] in recover($0) }
        spawn("planner") { [self] in plan($0) }
        spawn("intake") { [self] in takeJobs($0) }
        beat()
    }

    // MARK: Faults

    func kill(_ why: String) {
        guard isAlive else { return }
        world.note("\(id) killed \(why)")
        isAlive = false
        diedAt = world.now
        simulation.history.died(self)
    }

    func freeze(milliseconds: Int) {
        guard isAlive, !isFrozen else { return }
        world.note("\(id) frozen for \(milliseconds)")
        frozenUntil = world.now + Nanoseconds.milliseconds(milliseconds)
        frozenTime += Nanoseconds.milliseconds(milliseconds)
        if milliseconds > 5000 { lastAbsence = frozenUntil }
    }

    func cutOff(milliseconds: Int) {
        world.note("\(id) cut off for \(milliseconds)")
        cutUntil = world.now + Nanoseconds.milliseconds(milliseconds)
        if milliseconds > 5000 { lastAbsence = cutUntil }
    }

    /// Stops as after SIGTERM.
    func drain() {
        guard isAlive, !isDraining else { return }
        world.note("\(id) drains")
        isDraining = true
        post(milliseconds: 0) { [self] in
            shared.stop()
            desk.drain()
            after(milliseconds: 25_000) { [self] in kill("after its grace time") }
        }
    }

    // MARK: Time

    /// Does something in this process: later when it is frozen, never when it is dead.
    func post(milliseconds: Int, _ body: @escaping () -> Void) {
        post(Nanoseconds.milliseconds(milliseconds), body)
    }

    private func post(_ nanoseconds: Int64, _ body: @escaping () -> Void) {
        world.after(nanoseconds) { [self] in
            guard isAlive else { return }
            if isFrozen {
                post(frozenUntil - world.now + Int64(world.pick(0...9)) * 1_000_000, body)
            } else {
                body()
            }
        }
    }

    private func after(milliseconds: Int, _ body: @escaping () -> Void) {
        world.after(milliseconds: milliseconds, body)
    }

    /// Wakes the current task from its next wait; takes nanoseconds from then on.
    func makeWake() -> (Int64) -> Void {
        guard let task = world.current else { preconditionFailure("only a task can wait") }
        let wait = task.wait
        return { [self] delay in post(delay) { [world] in world.resume(task, wait) } }
    }

    func wait() { world.suspend() }

    func pause(milliseconds: Int) {
        guard isAlive, !world.isOver else { return }
        makeWake()(Nanoseconds.milliseconds(milliseconds))
        wait()
    }

    private func spawn(_ name: String, _ body: @escaping (JobStore) -> Void) {
        let task = world.spawn("\(id) \(name)") { [self] _ in
            guard isAlive, !world.isOver else { return }
            body(JobStore(SimulatedLink(self, name), namespace: Simulation.namespace))
        }
        post(milliseconds: world.pick(0...20)) { [world] in world.resume(task, 0) }
    }

    /// The process lives and its threads go on.
    private var isRunning: Bool { isAlive && !world.isOver }
    private var isWorking: Bool { isRunning && !shared.isStopping }

    /// Does something with Redis; false after trouble and a pause.
    private func tried(_ body: () throws(RedisError) -> Void) -> Bool {
        do throws(RedisError) {
            try body()
            return true
        } catch {
            guard isRunning else { return false }
            if !error.isTransient { simulation.history.fault("\(id) ends: \(error)") }
            pause(milliseconds: world.pick(25...700))
            return false
        }
    }

    // MARK: The loop

    private func beat() {
        post(milliseconds: SimulatedWorker.beat) { [self] in
            budget = min(budget + simulation.pace, 4)
            budget -= Double(lane.tick(clock, limit: Int(budget)))
            guard isAlive else { return }
            desk.commitDue(clock)
            desk.claim(clock)
            beat()
        }
    }

    private func ask(_ request: ShardExchange.Request) {
        requests.append(request)
        if simulation.mutant.sendsFirst, case .commit(let run, _) = request {
            let reply = CommitReply(
                status: .ok, campaignState: "running",
                nowMilliseconds: simulation.redis.milliseconds, left: 1)
            post(milliseconds: 0) { [self] in desk.handle([.committed(run: run, reply)], clock) }
        }
        exchangeWake?(1_000_000)
        exchangeWake = nil
    }

    private func answered(_ answers: [ShardExchange.Answer]) {
        post(milliseconds: 1) { [self] in
            let kept = answers.filter { answer in
                if case .redisChanged = answer { !simulation.mutant.forgetsFinished } else { true }
            }
            desk.handle(kept, clock)
        }
    }

    // MARK: The threads

    private func exchangeShards(_ store: JobStore) {
        var jobs: [String: Job] = [:]
        var waiting: [ShardExchange.Request] = []
        while isRunning {
            waiting += requests
            requests = []
            guard !waiting.isEmpty else {
                if shared.isStopping, desk.runs.isEmpty {
                    retire(store)
                    return
                }
                let wake = makeWake()
                exchangeWake = wake
                wake(1_000_000_000)
                wait()
                continue
            }
            if tried({ () throws(RedisError) in try exchange.serve(&waiting, store, &jobs) }) {
                pause(milliseconds: 1)
            }
        }
    }

    /// The end in good order.
    private func retire(_ store: JobStore) {
        while isRunning {
            if tried({ () throws(RedisError) in try store.retire(worker: id) }) { break }
        }
        guard isRunning else { return }
        world.note("\(id) ended")
        isAlive = false
    }

    private func beatHeart(_ store: JobStore) {
        while isRunning {
            let holds = shared.holds.withLock { $0 }.sorted { $0.order < $1.order }
            let isDone = tried { () throws(RedisError) in
                let gone = try store.heartbeat(worker: id, fields: ["host": "h"], holds: holds)
                guard !gone.isEmpty else { return }
                post(milliseconds: 1) { [self] in desk.lost(gone, clock) }
            }
            if isDone { pause(milliseconds: 4000) }
        }
    }

    private func recover(_ store: JobStore) {
        let recovery = Recovery(
            shared,
            unparked: { [unowned self] in
                post(milliseconds: 1) { [self] in desk.claimSoon(clock) }
            },
            stopped: { [unowned self] campaigns in
                post(milliseconds: 1) { [self] in desk.stopped(campaigns) }
            })
        var memory = Recovery.Memory()
        while isWorking {
            let isDone = tried { () throws(RedisError) in
                try recovery.turn(store, &memory, now: clock)
                guard simulation.mutant.looksOnce else { return }
                for lease in try store.expired().leases { _ = try store.reclaim(lease) }
            }
            if !isDone { memory = Recovery.Memory() }
            pause(milliseconds: SimulatedWorker.recoveryPause)
        }
    }

    private func plan(_ store: JobStore) {
        let planner = Planner(shared) { [unowned self] in
            post(milliseconds: 1) { [self] in desk.claimSoon(clock) }
        }
        while isWorking {
            let name = String(world.next(), radix: 16)
            var plan: JobStore.ClaimedPlan?
            while isWorking {
                if tried({ () throws(RedisError) in
                    plan = try store.claimPlan(worker: id, plan: name)
                }) {
                    break
                }
            }
            if let plan { planner.make(plan, store) }
            pause(milliseconds: 700)
        }
    }

    private func takeJobs(_ store: JobStore) {
        let intake = Intake(shared) {}
        var generation = -1
        var lookedAt = world.now
        while isWorking {
            _ = tried { () throws(RedisError) in
                try store.redis.connect()
                if store.redis.generation != generation
                    || world.now - lookedAt > Nanoseconds.seconds(10)
                {
                    _ = try store.heartbeat(worker: id, fields: [:], holds: [])
                    for job in try store.takenJobs(worker: id) { try intake.handle(job, store) }
                    generation = store.redis.generation
                    lookedAt = world.now
                }
                if let job = try store.takeJob(worker: id, waiting: 1) {
                    try intake.handle(job, store)
                }
            }
            pause(milliseconds: 1000)
        }
    }
}

extension JobStore.Hold {
    /// The same order each time.
    fileprivate var order: String {
        switch self {
        case .shard(let fence): "\(member) \(fence.epoch) \(fence.nonce)"
        case .plan(_, let plan): "\(member) \(plan)"
        }
    }
}
