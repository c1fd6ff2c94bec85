internal import Base
internal import JSON
internal import Synchronization
internal import Telemetry

/// Says whether the worker is ready, on a thread of its own: in the log when it changes, and once a
/// second in the status file.
final class StatusReporter: Sendable {
    static let interval = Nanoseconds.seconds(1)

    private let shared: WorkerShared
    private let file: StatusFile?
    private let ended = Mailbox<Void>(limit: 1)
    private let isLogging = Atomic<Bool>(false)

    init(_ shared: WorkerShared) {
        self.shared = shared
        file = shared.settings.statusFile.map { StatusFile(path: $0) }
    }

    /// Writes the first status file; an error says why that cannot be.
    func start() throws { try file?.write(content(AnswerRate().perSecond)) }

    /// Begins to tell changes in the log: from now on nobody else tells that Redis is away.
    func startLogging() { isLogging.store(true, ordering: .releasing) }

    /// Ends the thread after one last turn.
    func stop() { ended.close() }

    func run() {
        var changes = ReadinessChanges()
        var rate = AnswerRate()
        var outage = Outage()
        while true {
            let isLast = ended.isClosed
            turn(&changes, &rate, &outage)
            if isLast { return }
            _ = ended.take(waitingAtMost: StatusReporter.interval)
        }
    }

    private func turn(
        _ changes: inout ReadinessChanges, _ rate: inout AnswerRate, _ outage: inout Outage
    ) {
        let now = Instant.now()
        let status = shared.loopStatus.withLock { $0 }
        let (faults, isKnown) = shared.readiness.withLock { readiness in
            readiness.connected(status.lanes, now: now)
            if shared.isStopping { readiness.drain() }
            return (readiness.faults(now: now), readiness.isKnown)
        }
        if isKnown, isLogging.load(ordering: .acquiring), changes.areNews(faults, now: now) {
            tell(faults)
        }
        rate.turn(answers: status.answers, now)
        guard let file else { return }
        do {
            try file.write(content(rate.perSecond))
            if outage.succeeded(now: now) != nil {
                shared.log.info("status_file_back", "the status file is written again")
            }
        } catch {
            if outage.failed(now: now) != nil {
                shared.log.error("status_file_trouble", "\(error)")
            }
        }
    }

    private func tell(_ faults: [Readiness.Fault]) {
        if faults.isEmpty {
            shared.log.info("ready", "can take work and send")
            return
        }
        shared.log.warning(
            "not_ready", StatusReporter.sentence(faults),
            faults.map { ($0.check.rawValue, .text($0.reason)) })
    }

    /// All reasons in one line; empty when ready.
    static func sentence(_ faults: [Readiness.Fault]) -> String {
        faults.map { "\($0.check.rawValue): \($0.reason)" }.joined(separator: "; ")
    }

    /// The status file; its fields are a contract.
    private func content(_ rate: Int) -> [UInt8] {
        let status = shared.loopStatus.withLock { $0 }
        let faults = shared.readiness.withLock { $0.faults(now: Instant.now()) }
        var reasons: [String: JSONValue] = [:]
        for fault in faults { reasons[fault.check.rawValue] = .string(fault.reason) }
        return JSONValue.object([
            "ready": .bool(faults.isEmpty), "reasons": .object(reasons),
            "worker": .string(shared.id), "version": .string(shared.settings.version),
            "at_ms": .integer(WallClock.milliseconds()),
            "shards": .integer(Int64(status.runs)),
            "connections": .integer(Int64(status.connections)),
            "in_flight": .integer(Int64(status.inFlight)), "rate": .integer(Int64(rate)),
        ]).serialized() + [0x0A]
    }
}

/// Answers per second between two turns.
struct AnswerRate: Sendable {
    private(set) var perSecond = 0
    private var answers = 0
    private var at = Instant.now()

    mutating func turn(answers now: Int, _ time: Instant) {
        let seconds = max(Double(time - at) / 1e9, 0.001)
        perSecond = Int(Double(now - answers) / seconds)
        (answers, at) = (now, time)
    }
}
