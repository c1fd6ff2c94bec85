internal import APNs
internal import APNsClient
internal import Base
internal import Campaign
internal import EventLoop
internal import JobQueue
internal import TLS
internal import Telemetry

/// The send loop of a worker: turns the desk of shards and the pools of connections.
///
/// Loop only.
///
/// 1. Each tick lets the pools take notifications from the runs, and the desk make its commits.
/// 2. Brings outcomes and Redis' answers to the desk.
/// 3. Drains: hands out nothing more, waits for answers, commits and gives shards back.
final class SendLoop: @unchecked Sendable {
    let loop: EventLoop
    private let shared: WorkerShared
    private let context: TLSContext
    private var exchange: ShardExchange?
    private var built: RunDesk?
    private var lanes: [String: AppLane] = [:]
    private var random: SeededRandom
    /// What other threads read.
    var status: Lock<LoopStatus> { shared.loopStatus }

    init(_ shared: WorkerShared, loop: EventLoop, context: TLSContext, seed: UInt64) {
        self.shared = shared
        self.loop = loop
        self.context = context
        random = SeededRandom(seed: seed)
        built = RunDesk(
            RunDesk.Surroundings(
                settings: shared.settings, log: shared.log,
                lane: { [unowned self] in lane($0) },
                ask: { [unowned self] in _ = exchange?.requests.add($0) },
                hold: { fence, isHeld in shared.hold(.shard(fence), isHeld) },
                nonce: { WorkerID.nonce() }, isStopping: { shared.isStopping }),
            seed: random.next())
    }

    private var desk: RunDesk {
        guard let built else { preconditionFailure("a loop makes its desk when it is made") }
        return built
    }

    /// Begins to claim and send.
    func start(_ exchange: ShardExchange) {
        self.exchange = exchange
        loop.tickHandler = { [unowned self] in tick() }
        beat()
    }

    /// Stops claiming and sending; runs end as their answers come in.
    func drain() {
        desk.drain()
        for lane in lanes.values { lane.pool.stop() }
        tick()
    }

    /// Ends all connections; what was not answered stays in flight for the recovery.
    func close() {
        for lane in lanes.values { lane.pool.closeAll() }
        tick()
    }

    /// Wakes claiming at once: a plan was finished or a shard became ready.
    func claimSoon() { desk.claimSoon(loop.now) }

    /// Runs of these leases are somebody else's now.
    func lost(_ holds: Set<JobStore.Hold>) { desk.lost(holds, loop.now) }

    /// These campaigns do not run any more.
    func stopped(_ campaigns: [String]) {
        desk.stopped(campaigns)
        tick()
    }

    /// Takes what the exchange brings.
    func handle(_ answers: [ShardExchange.Answer]) {
        desk.handle(answers, loop.now)
        if !desk.runs.isEmpty { loop.isTicking = true }
    }

    /// The slow turn while nothing is sent, and the upkeep while something is.
    private func beat() {
        if !loop.isTicking { tick() }
        desk.claim(loop.now)
        publish()
        loop.schedule(after: Nanoseconds.milliseconds(100)) { [unowned self] in beat() }
    }

    private func tick() {
        let now = loop.now
        for lane in lanes.values { lane.pool.tick(now: now) }
        desk.commitDue(now)
        loop.isTicking = !desk.runs.isEmpty
    }

    private func lane(_ app: String) -> AppLane? {
        if let lane = lanes[app] { return lane }
        guard let profile = shared.apps[app] else { return nil }
        let lane = AppLane(
            app: app, profile: profile, shared: shared, context: context, loop: loop,
            seed: random.next()
        ) { [unowned self] number, index, outcome, latency in
            desk.ended(number, index, outcome, latency: latency, now: loop.now)
        }
        lanes[app] = lane
        lane.pool.start()
        return lane
    }

    private func publish() {
        var fresh = LoopStatus()
        fresh.runs = desk.runs.count
        for (app, lane) in lanes {
            fresh.lanes.append(
                Readiness.Lane(
                    app: app, connections: lane.pool.openConnections,
                    failure: lane.pool.lastFailure))
            fresh.connections += lane.pool.openConnections
            fresh.inFlight += lane.pool.inFlight
            fresh.answers += lane.answers
            if let failure = lane.pool.lastFailure { fresh.failure = failure }
        }
        status.withLock { $0 = fresh }
    }
}

/// What dashboards and the main thread see of the loop.
struct LoopStatus: Sendable {
    var runs = 0
    var connections = 0
    var inFlight = 0
    var answers = 0
    var failure = ""
    /// The lanes in use.
    var lanes: [Readiness.Lane] = []
}
