internal import APNs
internal import Base
internal import Campaign
internal import Crypto
internal import EventLoop
internal import JobQueue
internal import Redis
internal import TLS
package import Telemetry

/// How a worker ended; the raw values are exit codes.
package enum WorkerEnd: Int32, Sendable {
    /// All that was in flight was answered and given back.
    case drained = 0
    /// Redis could not be reached within the start limit.
    case unreachable = 69
    /// Something that must not happen did; the log says what.
    case fault = 70
    /// The grace time ran out: the recovery takes over what was in flight.
    case partlyDrained = 75
    /// The configuration cannot be used.
    case misconfigured = 78
}

/// One worker process: claims, plans, sends, records.
///
/// 1. Checks configuration, keys and Redis before anything else, with one clear line for each
/// fault.
/// 2. Starts the loop and, beside it, threads for intake, planning, the exchange with Redis,
///    heartbeat and recovery.
/// 3. SIGTERM or SIGINT: takes nothing new, waits for answers, gives shards back. A second signal
///    ends it at once.
/// 4. With `once` it ends by itself when nothing is left to do for anybody.
package final class Worker {
    private let settings: WorkerSettings
    private let log: Log
    private let apps: AppProfiles
    private let id: String

    package init(settings: WorkerSettings, apps: AppProfiles, logLevel: Log.Level) {
        self.settings = settings
        self.apps = apps
        id = WorkerID.make(
            host: ProcessEnvironment.hostName, process: ProcessEnvironment.processID)
        log = Log(level: logLevel, common: [("worker", .text(id))])
    }

    /// Runs until it is told to end; the calling thread waits for signals meanwhile.
    package func run() -> WorkerEnd {
        Signals.block([Signals.terminate, Signals.interrupt])
        let context: TLSContext
        let loop: EventLoop
        let credentials: [String: ProviderCredential]
        do {
            credentials = try apps.credentials()
            context = try TLSContext(clientTrusting: settings.trustedRoots)
            loop = try EventLoop(name: "peal-send")
        } catch {
            log.error("configuration", "\(error)")
            return .misconfigured
        }
        let shared = WorkerShared(
            id: id, settings: settings, apps: apps, credentials: credentials, log: log)
        let reporter = StatusReporter(shared)
        do { try reporter.start() } catch {
            log.error("configuration", "\(error)")
            return .misconfigured
        }
        let reporterThread = Thread("peal-status") { reporter.run() }
        defer {
            reporter.stop()
            reporterThread.join()
        }
        if let end = waitForRedis(shared) { return end }
        reporter.startLogging()
        return run(shared, loop, context)
    }

    /// Waits for Redis at most `startSeconds`; nil when it is there and usable.
    private func waitForRedis(_ shared: WorkerShared) -> WorkerEnd? {
        let redis = RedisConnection(settings.redis, name: "peal-start")
        let store = JobStore(redis, namespace: settings.namespace)
        let limit = Instant.now() + Nanoseconds.seconds(settings.startSeconds)
        var backoff = Backoff("start", shared.readiness)
        while true {
            do throws(RedisError) {
                try redis.requireSuitable(
                    namespace: settings.namespace, allowsEviction: settings.allowsEviction)
                _ = try store.heartbeat(worker: id, fields: [:], holds: [])
                backoff.succeeded(log)
                return nil
            } catch {
                guard error.isTransient else {
                    log.error("redis_unsuitable", "\(error)")
                    return .misconfigured
                }
                let pause = backoff.failed(error, log)
                if Instant.now() >= limit {
                    log.error(
                        "redis_unreachable",
                        "\(error); gave up after \(settings.startSeconds) s, check --redis")
                    return .unreachable
                }
                if Signals.wait(for: [Signals.terminate, Signals.interrupt], nanoseconds: pause)
                    != nil
                {
                    return .drained
                }
            }
        }
    }

    private func run(_ shared: WorkerShared, _ loop: EventLoop, _ context: TLSContext) -> WorkerEnd
    {
        var random = SystemRandomNumberGenerator()
        let sender = SendLoop(shared, loop: loop, context: context, seed: random.next())
        let exchange = ShardExchange(shared) { answers in loop.submit { sender.handle(answers) } }
        let claimSoon: @Sendable () -> Void = { loop.submit { sender.claimSoon() } }
        let planner = Planner(shared, planned: claimSoon)
        let intake = Intake(shared) { planner.bell.add(()) }
        let recovery = Recovery(shared, unparked: claimSoon) { campaigns in
            loop.submit { sender.stopped(campaigns) }
        }
        let fields = statusFields(shared)
        let heartbeat = Heartbeat(shared, loop: loop, fields: fields) { lost in
            loop.submit { sender.lost(lost) }
        }
        loop.submit { sender.start(exchange) }
        let loopThread = loop.start()
        let exchangeThread = Thread("peal-exchange") { exchange.run() }
        let heartbeatThread = Thread("peal-heartbeat") { heartbeat.run() }
        let threads = [
            Thread("peal-intake") { intake.run() }, Thread("peal-planner") { planner.run() },
            Thread("peal-recovery") { recovery.run() },
        ]
        log.info("worker_started", "takes jobs and sends", [("version", .text(settings.version))])
        waitForEnd(shared, sender)

        shared.stop()
        loop.submit { sender.drain() }
        let isDrained = waitForDrain(shared, sender)
        if !isDrained { loop.submit { sender.close() } }
        // A thread that hangs, on a dead disk for example, must not keep the process.
        let patience = Nanoseconds.seconds(isDrained ? 10 : 2)
        _ = Thread("peal-watchdog") { [log] in
            Thread.sleep(nanoseconds: patience)
            log.error("worker_hung", "a thread did not end; leases are left to the recovery")
            ProcessEnvironment.exitNow(WorkerEnd.partlyDrained.rawValue)
        }
        planner.bell.close()
        for thread in threads { thread.join() }
        exchange.requests.close()
        exchangeThread.join()
        heartbeat.stop()
        heartbeatThread.join()
        loop.submit { sender.close() }
        loop.stop()
        loopThread.join()
        try? shared.makeStore("end").retire(worker: id)
        if let fault = shared.fault {
            log.error("worker_fault", fault)
            return .fault
        }
        log.info("worker_stopped", isDrained ? "drained" : "some shards are left to the recovery")
        return isDrained ? .drained : .partlyDrained
    }

    /// Waits for a signal, a fault, or with `once` for the end of all work.
    private func waitForEnd(_ shared: WorkerShared, _ sender: SendLoop) {
        let store = shared.makeStore("once")
        var quiet = 0
        while !shared.isStopping {
            let pause = Nanoseconds.milliseconds(settings.once ? 100 : 500)
            if Signals.wait(for: [Signals.terminate, Signals.interrupt], nanoseconds: pause) != nil
            {
                return
            }
            guard settings.once else { continue }
            let isQuiet =
                sender.status.withLock { $0.runs == 0 } && (try? store.idle())?.isIdle == true
                && (try? store.takenJobs(worker: id))?.isEmpty == true
            quiet = isQuiet ? quiet + 1 : 0
            if quiet >= 3 { return }
        }
    }

    /// True when all runs ended within the grace time.
    private func waitForDrain(_ shared: WorkerShared, _ sender: SendLoop) -> Bool {
        let limit = Instant.now() + Nanoseconds.seconds(settings.drainSeconds)
        // The loop publishes its state every 100 ms: the first look must be at a fresh one.
        var looks = 0
        while Instant.now() < limit {
            if Signals.wait(
                for: [Signals.terminate, Signals.interrupt],
                nanoseconds: Nanoseconds.milliseconds(60))
                != nil
            {
                return false
            }
            looks += 1
            if looks > 3, sender.status.withLock({ $0.runs == 0 }) { return true }
        }
        return false
    }

    /// What dashboards read in `worker:<id>`.
    private func statusFields(_ shared: WorkerShared) -> @Sendable () -> [String: String] {
        let host = ProcessEnvironment.hostName
        let process = ProcessEnvironment.processID
        let version = settings.version
        let started = WallClock.milliseconds()
        let rate = Lock(AnswerRate())
        return {
            let status = shared.loopStatus.withLock { $0 }
            let now = Instant.now()
            let perSecond = rate.withLock { rate -> Int in
                rate.turn(answers: status.answers, now)
                return rate.perSecond
            }
            let faults = shared.readiness.withLock { $0.faults(now: now) }
            return [
                "host": host, "pid": String(process), "version": version,
                "started_ms": String(started), "connections": String(status.connections),
                "in_flight": String(status.inFlight), "shards": String(status.runs),
                "rate": String(perSecond),
                "resident_bytes": String(ProcessEnvironment.residentBytes),
                "failure": status.failure, "ready": faults.isEmpty ? "1" : "0",
                "not_ready_because": StatusReporter.sentence(faults),
            ]
        }
    }
}
