internal import Base
internal import Campaign
internal import JobQueue
internal import Redis
internal import Synchronization
internal import Telemetry

/// What the threads of one worker share. Everything in it is constant, atomic or behind a lock.
final class WorkerShared: Sendable {
    let id: String
    let settings: WorkerSettings
    let apps: AppProfiles
    let log: Log
    /// The leases to renew.
    let holds = Lock<Set<JobStore.Hold>>([])

    private let stopping = Atomic<Bool>(false)
    private let failure = Lock<String?>(nil)

    init(id: String, settings: WorkerSettings, apps: AppProfiles, log: Log) {
        self.id = id
        self.settings = settings
        self.apps = apps
        self.log = log
    }

    /// The worker takes nothing new any more.
    var isStopping: Bool { stopping.load(ordering: .acquiring) }
    func stop() { stopping.store(true, ordering: .releasing) }

    /// Why the worker cannot go on, if so.
    var fault: String? { failure.withLock { $0 } }

    /// Ends the worker because of an error that does not pass by itself.
    func fail(_ task: String, _ error: any Error) {
        failure.withLock { if $0 == nil { $0 = "\(task): \(error)" } }
        stop()
    }

    /// A connection to Redis of the calling thread's own.
    func makeStore(_ role: String) -> JobStore {
        JobStore(
            RedisConnection(settings.redis, name: "peal-\(role)"), namespace: settings.namespace)
    }

    /// Faults of a job and its id, as far as that could be read.
    struct Unreadable: Error {
        let id: String?
        let faults: [JobFault]
    }

    /// Reads and checks a job, also against this worker's apps.
    ///
    /// - Parameter isAccepted: it was checked before, so that a deadline may have passed since.
    func read(_ raw: [UInt8], isAccepted: Bool = false) -> Result<Job, Unreadable> {
        let now = isAccepted ? 0 : WallClock.milliseconds()
        switch Job.read(raw, now: now) {
        case .failure(let faults):
            return .failure(Unreadable(id: faults.id, faults: faults.faults))
        case .success(let job):
            let faults = apps.faults(of: job)
            return faults.isEmpty ? .success(job) : .failure(Unreadable(id: job.id, faults: faults))
        }
    }
}
