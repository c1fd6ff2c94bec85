internal import Base
internal import Campaign
internal import JSON
internal import JobQueue
internal import Redis
internal import Telemetry

/// Takes jobs from the intake list, on a thread of its own.
///
/// 1. Moves a job to this worker's list of taken jobs (BLMOVE), so that it survives a crash.
/// 2. Registers a valid job as a campaign that waits for its plan.
/// 3. Sends any other job to the dead letters, with everything that is wrong with it.
/// 4. Looks through its own list at the start, after each reconnect and every 10 s, since a reply
///    of BLMOVE can be lost.
final class Intake: Sendable {
    /// Seconds that one BLMOVE waits; the longest a stop waits for this thread.
    private static let blockSeconds = 1
    private static let ownListInterval = Nanoseconds.seconds(10)

    private let shared: WorkerShared
    private let registered: @Sendable () -> Void

    /// - `registered`: called after a campaign was registered, to wake the planner.
    init(_ shared: WorkerShared, registered: @escaping @Sendable () -> Void) {
        self.shared = shared
        self.registered = registered
    }

    func run() {
        let store = shared.makeStore("intake")
        var backoff = Backoff("take jobs", shared.readiness)
        var lookedAt = Instant(nanoseconds: 0)
        var generation = -1
        while !shared.isStopping {
            do {
                _ = try backoff.repeating(shared.log, isStopped: { self.shared.isStopping }) {
                    () throws(RedisError) in
                    try store.redis.connect()
                    let now = Instant.now()
                    if store.redis.generation != generation
                        || now - lookedAt > Intake.ownListInterval
                    {
                        // Known as alive before anything is taken, so that nobody takes it away.
                        _ = try store.heartbeat(worker: self.shared.id, fields: [:], holds: [])
                        for job in try store.takenJobs(worker: self.shared.id) {
                            try self.handle(job, store)
                        }
                        generation = store.redis.generation
                        lookedAt = now
                    }
                    if let job = try store.takeJob(
                        worker: self.shared.id, waiting: Intake.blockSeconds)
                    {
                        FailPoint.reached("after_take")
                        try self.handle(job, store)
                    }
                }
            } catch {
                shared.fail("taking jobs", error)
                return
            }
        }
    }

    /// Makes a taken job a campaign or a dead letter.
    func handle(_ raw: [UInt8], _ store: JobStore) throws(RedisError) {
        let job: Job
        let digest: String
        switch shared.read(raw) {
        case .success(let valid): (job, digest) = valid
        case .failure(let faults):
            // A job that was good when it came first may be past its deadline when it comes again.
            guard case .success(let old) = shared.read(raw, isAccepted: true),
                try store.knows(id: old.job.id, digest: old.digest)
            else {
                try bury(raw, id: faults.id, faults.faults, store)
                return
            }
            (job, digest) = old
        }
        let fields = [
            "app": job.app, "on_unknown": job.onUnknown.rawValue,
            "max_tries": String(job.retry.maxTries), "weight": String(job.weight),
        ]
        let result = try store.register(
            worker: shared.id, raw: raw, id: job.id, digest: digest, fields: fields)
        FailPoint.reached("after_register")
        switch result {
        case .accepted:
            shared.log.info(
                "job_accepted", "a campaign waits for its plan", [("campaign", .text(job.id))])
            registered()
        case .duplicate:
            shared.log.info(
                "job_duplicate", "the same job was enqueued before; it runs once",
                [("campaign", .text(job.id))])
        case .failed:
            try bury(
                raw, id: job.id,
                [
                    JobFault(
                        path: "$.id",
                        message: "this very job failed before (peal status \(job.id) says why); "
                            + "correct it and give it a new id")
                ], store)
        case .conflict:
            try bury(
                raw, id: job.id,
                [
                    JobFault(
                        path: "$.id",
                        message: "another job with this id and other content is known; "
                            + "give the new one an id of its own")
                ], store)
        }
    }

    private func bury(
        _ raw: [UInt8], id: String?, _ faults: [JobFault], _ store: JobStore
    ) throws(RedisError) {
        let letter = DeadLetter.make(job: raw, id: id, faults: faults, worker: shared.id)
        try store.bury(worker: shared.id, raw: raw, letter: letter)
        shared.log.error(
            "job_dead", faults.map { "\($0.path): \($0.message)" }.joined(separator: "; "),
            [("campaign", .text(id ?? "")), ("faults", .number(faults.count))])
    }
}

/// What stands in the dead-letter list for a job that cannot run.
enum DeadLetter {
    /// The job as text, what is wrong and where, by whom and when it was found.
    static func make(job: [UInt8], id: String?, faults: [JobFault], worker: String) -> [UInt8] {
        JSONValue.object([
            "id": id.map { .string($0) } ?? .null,
            "faults": .array(
                faults.map { .object(["path": .string($0.path), "message": .string($0.message)]) }),
            "job": .string(String(decoding: job, as: UTF8.self)),
            "worker": .string(worker),
            "at_ms": .integer(WallClock.milliseconds()),
        ]).serialized()
    }
}
