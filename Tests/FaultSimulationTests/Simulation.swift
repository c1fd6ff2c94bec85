import Base
import Redis

@testable import Worker

/// One run: a few campaigns, a few workers, the faults of a seed, and the account at the end.
final class Simulation {
    static let namespace = "sim"
    /// Virtual milliseconds after the last fault within which everything must be done.
    private static let patience = 150_000

    /// A campaign as its backend sees it.
    struct Backed {
        enum Policy: String { case resend, skip }
        let id: String
        let policy: Policy
        let recipients: [Int]
    }

    let world: World
    let redis: SimulatedRedis
    let faults: Faults
    let apns: SimulatedAPNs
    let history: History
    let mutant: Mutant
    let settings: WorkerSettings
    let apps: AppProfiles
    private(set) var campaigns: [Backed] = []
    private(set) var workers: [SimulatedWorker] = []
    /// Notifications that a worker sends in one turn of its loop on average.
    let pace: Double
    /// How long calls to Redis take.
    private let slowness: Int
    private let marks: Int

    /// What came of a run.
    struct Report: Sendable {
        let seed: UInt64
        let kind: String
        let trace: UInt64
        let violations: [String]
        let lines: [String]
        let sends: Int
        let deaths: Int
        let rollbacks: Int
    }

    /// Runs one seed on a server of its own, which it empties first.
    static func run(
        _ seed: UInt64, on connection: RedisConnection, mutant: Mutant = .none,
        keepsLines: Bool = false
    ) throws -> Report {
        let simulation = try Simulation(seed, connection, mutant, keepsLines)
        return simulation.run(seed)
    }

    private init(
        _ seed: UInt64, _ connection: RedisConnection, _ mutant: Mutant, _ keepsLines: Bool
    ) throws {
        self.mutant = mutant
        world = World(seed: seed, keepsLines: keepsLines)
        redis = SimulatedRedis(
            world, connection, label: mutant.name, rewrite: { mutant.rewrite($0, $1) })
        faults = Faults(world)
        apns = SimulatedAPNs(world)
        history = History(world, faults)
        var settings = WorkerSettings(redis: RedisAddress(host: "127.0.0.1", port: 1))
        settings.namespace = Simulation.namespace
        settings.shardSize = 40
        settings.connections = 2
        self.settings = settings
        apps = try AppProfiles.parse(
            Array(
                """
                {"apps":{"app":{"topic":"com.example.app","environment":"sandbox",
                "team_id":"TEAM123456","key_id":"ABC123DEFG","key_file":"a.p8"}}}
                """.utf8), file: "apps.json")
        pace = [0.2, 0.4, 0.7, 2][world.pick(0...3)]
        slowness = [1, 1, 6, 40][world.pick(0...3)]
        marks = world.pick(4...16)
    }

    private func run(_ seed: UInt64) -> Report {
        redis.empty()
        for _ in 0..<world.pick(2...3) { startWorker() }
        for number in 0..<world.pick(1...2) { enqueue(number) }
        schedule()
        let checker = Checker(simulation: self)
        let end = world.now + Nanoseconds.milliseconds(Faults.end + Simulation.patience)
        var nextLook = world.now
        var rest: [String] = []
        tick()
        repeat {
            world.step()
            guard world.now >= nextLook else { continue }
            nextLook = world.now + Nanoseconds.seconds(1)
            checker.sample()
            guard faults.isOver else { continue }
            settle()
            rest = checker.unrest()
            if rest.isEmpty || !history.violations.isEmpty { break }
        } while world.now < end
        if !rest.isEmpty && history.violations.isEmpty {
            history.fault("it hangs: \(rest.joined(separator: ", "))")
        }
        if history.violations.isEmpty { checker.account() }
        world.end()
        return Report(
            seed: seed, kind: faults.kind.rawValue, trace: world.trace,
            violations: history.violations, lines: world.lines, sends: history.sends,
            deaths: history.deaths.count, rollbacks: history.rollbacks)
    }

    /// Time passes also when everybody is held up.
    private func tick() {
        world.after(milliseconds: 500) { [self] in
            if !workers.contains(where: {
                $0.isAlive && !$0.isFrozen && !$0.isCut && !$0.isDraining
            }) {
                history.disturbed()
            }
            if faults.kind == .rollback, faults.isWatched { redis.copy() }
            tick()
        }
    }

    private func startWorker() {
        let worker = SimulatedWorker(self, "w\(workers.count)", marks: marks)
        workers.append(worker)
        world.note("\(worker.id) starts")
        worker.start()
    }

    func observe(_ call: SimulatedRedis.Call, _ replies: [RedisReply]) {
        history.observe(call, replies, workers)
        let isEnd = call.label == "commit" && replies.contains { $0.array?.first?.string == "done" }
        if isEnd, faults.forgetsEnd() {
            world.after(milliseconds: world.pick(50...900)) { [self] in
                rollBack("after the end of a shard")
            }
        }
    }

    // MARK: Backends and operators

    private func enqueue(_ number: Int) {
        let recipients = (0..<world.pick(30...110)).map { number * 1000 + $0 + 1 }
        let campaign = Backed(
            id: "c\(number)", policy: world.chance(0.5) ? .resend : .skip, recipients: recipients)
        campaigns.append(campaign)
        world.after(milliseconds: world.pick(0...6000)) { [self] in push(campaign) }
    }

    private func push(_ campaign: Backed) {
        let tokens = campaign.recipients.map { "\"\(Recipient.token($0))\"" }
            .joined(separator: ",")
        let job = """
            {"id":"\(campaign.id)","app":"app","payload":{"aps":{"alert":"x"}},\
            "on_unknown":"\(campaign.policy.rawValue)","audience":{"tokens":[\(tokens)]},\
            "retry":{"max_tries":9,"base_delay_ms":200,"max_delay_ms":1000}}
            """
        redis.plain(["LPUSH", "sim:jobs", job])
    }

    private func control(_ action: String, _ campaign: Backed) {
        world.note("\(action) \(campaign.id)")
        redis.plain(["LPUSH", "sim:control", "\(action) \(campaign.id)"])
    }

    /// After the faults: somebody resumes what is paused, enqueues what was lost, starts workers.
    private func settle() {
        for campaign in campaigns {
            let state = redis.plain(["HGET", "sim:campaign:\(campaign.id)", "state"]).string
            if state == "paused" { control("resume", campaign) }
            if state == nil, history.rollbacks > 0 { push(campaign) }
        }
        if workers.count(where: { $0.isAlive && !$0.isFrozen && !$0.isDraining }) < 2 {
            startWorker()
        }
    }

    // MARK: Faults

    private func schedule() {
        let end = Faults.end
        func some(_ range: ClosedRange<Int>, _ body: @escaping () -> Void) {
            for _ in 0..<world.pick(range) {
                world.after(milliseconds: world.pick(Faults.begin...end - 1000), body)
            }
        }
        some(0...2) { [self] in anyWorker { $0.lane.cut() } }
        if world.chance(0.5) {
            for _ in 0..<world.pick(1...2) {
                world.after(milliseconds: world.pick(1000...9000)) { [self] in jump() }
            }
        }
        some(0...1) { [self] in
            redis.restart(down: world.pick(0...800))
            history.disturbed()
            world.note("Redis restarts")
            if world.chance(0.5) {
                world.after(milliseconds: world.pick(500...2500)) { self.jump() }
            }
        }
        // A restart holds claims back for a while by the clock, which then jumps back.
        if world.chance(0.15) {
            let at = world.pick(1000...9000)
            world.after(milliseconds: at) { [self] in
                redis.restart(down: 0)
                history.disturbed()
                world.note("Redis restarts")
            }
            world.after(milliseconds: at + world.pick(500...2000)) { [self] in jump(-720_000) }
        }
        for campaign in campaigns {
            some(0...2) { [self] in
                control(["pause", "resume", "resume", "cancel"][world.pick(0...3)], campaign)
            }
        }
        if faults.allowsDeaths {
            some(0...2) { [self] in anyWorker { $0.kill("at some moment") } }
            some(0...2) { [self] in
                anyWorker { [self] in $0.freeze(milliseconds: world.pick(200...40_000)) }
                history.disturbed()
            }
            some(0...1) { [self] in
                anyWorker { [self] in $0.cutOff(milliseconds: world.pick(200...30_000)) }
                history.disturbed()
            }
            some(0...1) { [self] in anyWorker { $0.drain() } }
        }
        some(1...3) { [self] in if workers.count < 8 { startWorker() } }
        if faults.allowsRollbacks {
            for _ in 0..<world.pick(0...2) {
                let at = world.pick(2500...end - 1000)
                let depth = world.pick(50...2000)
                world.after(milliseconds: at - depth) { [self] in redis.copy() }
                world.after(milliseconds: at) { [self] in rollBack("as it was some time ago") }
            }
        }
    }

    private func anyWorker(_ body: (SimulatedWorker) -> Void) {
        let alive = workers.filter { $0.isAlive && !$0.isDraining }
        guard !alive.isEmpty else { return }
        body(alive[world.pick(0...alive.count - 1)])
    }

    private func jump(_ wanted: Int64? = nil) {
        let length = Int64([1500, 5000, 14_000, 60_000, 720_000][world.pick(0...4)])
        let milliseconds = wanted ?? (world.chance(0.5) ? length : -length)
        world.note("the clock jumps by \(milliseconds)")
        redis.jump(milliseconds)
        history.jumped()
    }

    /// Nanoseconds that a call or its answer is under way.
    func travel() -> Int64 { Int64(world.pick(200...1500) * slowness) * 1000 }

    func rollBack(_ why: String) {
        guard redis.rollBack(down: world.pick(0...500)) else { return }
        world.note("Redis is rolled back \(why)")
        history.rolledBack()
        // What this run is about: owners come back to it, one fault at a time.
        if faults.kind == .rollback {
            faults.quietUntil = world.now + Nanoseconds.seconds(4)
        }
    }
}
