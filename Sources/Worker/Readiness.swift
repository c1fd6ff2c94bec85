internal import Base
internal import Redis

/// Whether a worker can do its work, and why not.
///
/// | check | is ok while |
/// | --- | --- |
/// | `redis` | the latest probe succeeded at most 10 s ago, and no thread waits for Redis |
/// | `apns` | each app in use has a connection |
/// | `draining` | the worker takes work |
///
/// A probe is a write that Redis refuses when it can take no new data. An app is in use from its
/// first claimed shard on; without a connection it is given 5 s, as long as nothing failed.
struct Readiness: Sendable {
    /// Two heartbeats and a half.
    static let writeLimit = Nanoseconds.seconds(10)
    /// Without a connection, and without a failure to connect.
    static let connectLimit = Nanoseconds.seconds(5)
    /// The task that finds out whether Redis takes new data.
    static let probe = "probe"

    enum Check: String, CaseIterable, Sendable { case redis, apns, draining }

    /// A check that is not ok.
    struct Fault: Sendable, Equatable {
        let check: Check
        /// The same for the same cause, whatever its words.
        let kind: String
        /// For people: what is wrong and, where it helps, what to do.
        let reason: String
    }

    /// The connections of one app in use.
    struct Lane: Sendable, Equatable {
        let app: String
        let connections: Int
        /// The latest failure to connect.
        let failure: String?
    }

    /// When the latest probe succeeded.
    private var lastWrite: Instant?
    /// What keeps each task from Redis.
    private var troubles: [String: Fault] = [:]
    private var lanes: [Lane] = []
    /// Since when apps have no connection.
    private var unconnected: [String: Instant] = [:]
    private var isDraining = false

    /// Something is known about Redis.
    var isKnown: Bool { lastWrite != nil || !troubles.isEmpty }

    /// A probe succeeded.
    mutating func wrote(now: Instant) {
        lastWrite = now
        troubles[Readiness.probe] = nil
    }

    /// A task cannot go on because of Redis.
    mutating func failed(_ task: String, _ error: RedisError) {
        troubles[task] = Readiness.fault(error)
    }

    /// A task that failed goes on.
    mutating func worked(_ task: String) { troubles[task] = nil }

    /// The apps in use and their connections.
    mutating func connected(_ lanes: [Lane], now: Instant) {
        self.lanes = lanes.sorted { $0.app < $1.app }
        var still: [String: Instant] = [:]
        for lane in lanes where lane.connections == 0 {
            still[lane.app] = unconnected[lane.app] ?? now
        }
        unconnected = still
    }

    /// The worker ends.
    mutating func drain() { isDraining = true }

    /// The checks that are not ok, one fault each; none means ready.
    func faults(now: Instant) -> [Fault] {
        var faults: [Fault] = []
        if let fault = redisFault(now) { faults.append(fault) }
        if let fault = apnsFault(now) { faults.append(fault) }
        if isDraining {
            faults.append(
                Fault(
                    check: .draining, kind: "draining",
                    reason: "the worker ends; it takes nothing new"))
        }
        return faults
    }

    private func redisFault(_ now: Instant) -> Fault? {
        // The probe says most, then any other task, always the same one.
        if let fault = troubles[Readiness.probe] { return fault }
        if let task = troubles.keys.min() { return troubles[task] }
        guard let lastWrite else {
            return Fault(check: .redis, kind: "untried", reason: "nothing was written to Redis yet")
        }
        let age = now - lastWrite
        guard age > Readiness.writeLimit else { return nil }
        return Fault(
            check: .redis, kind: "silent",
            reason: "the latest write to Redis succeeded \(age / 1_000_000_000) s ago")
    }

    private func apnsFault(_ now: Instant) -> Fault? {
        let faults = lanes.compactMap { lane -> String? in
            guard let since = unconnected[lane.app] else { return nil }
            if let failure = lane.failure { return "\(lane.app): \(failure)" }
            guard now - since > Readiness.connectLimit else { return nil }
            return "\(lane.app): no connection to APNs for "
                + "\((now - since) / 1_000_000_000) s"
        }
        guard !faults.isEmpty else { return nil }
        return Fault(check: .apns, kind: "unconnected", reason: faults.joined(separator: "; "))
    }

    private static func fault(_ error: RedisError) -> Fault {
        func fault(_ kind: String, _ what: String) -> Fault {
            Fault(check: .redis, kind: kind, reason: what)
        }
        switch error.word {
        case "OOM":
            return fault(
                "out_of_memory",
                "Redis is out of memory: raise maxmemory or remove what is not "
                    + "needed; what is planned is still sent")
        case "READONLY":
            return fault(
                "read_only", "Redis is read-only: this is a replica, connect to its master")
        case "MISCONF":
            return fault(
                "disk", "Redis cannot write to its disk: it is full or not writable, see Redis' log"
            )
        case "LOADING": return fault("loading", "Redis is loading its data")
        case "NOREPLICAS":
            return fault(
                "replicas",
                "Redis has not enough replicas (min-replicas-to-write) and refuses "
                    + "writes")
        case "MASTERDOWN":
            return fault("read_only", "Redis is a replica that has lost its master")
        case "NOPERM", "NOAUTH", "WRONGPASS": return fault("rights", error.description)
        case "": return fault("unreachable", error.description)
        default: return fault("refused", "Redis refuses writes: \(error.description)")
        }
    }
}

/// Which changes of readiness are worth a log line: each one, until there are too many.
struct ReadinessChanges: Sendable {
    /// Lines in a row.
    static let burst = 6
    /// Time after which one more line may follow.
    static let interval = Nanoseconds.seconds(10)

    private var told: [String]?
    private var left = ReadinessChanges.burst
    private var refilledAt: Instant?

    /// Whether these faults are news; what is too much now is told later unless it changes back.
    mutating func areNews(_ faults: [Readiness.Fault], now: Instant) -> Bool {
        let kinds = faults.map { "\($0.check.rawValue):\($0.kind)" }
        let since = refilledAt ?? now
        let more = Int((now - since) / ReadinessChanges.interval)
        left = min(ReadinessChanges.burst, left + more)
        refilledAt = since + Int64(more) * ReadinessChanges.interval
        guard kinds != told, left > 0 else { return false }
        told = kinds
        left -= 1
        return true
    }
}
