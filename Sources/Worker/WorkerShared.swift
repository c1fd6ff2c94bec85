internal import APNs
internal import Base
internal import Campaign
internal import JobQueue
internal import Redis
internal import Synchronization
internal import Telemetry

/// Time and chance as the threads of a worker take them.
struct Outside: Sendable {
    var now: @Sendable () -> Instant
    /// Lets the calling thread wait for so many nanoseconds.
    var sleep: @Sendable (Int64) -> Void
    var random: @Sendable () -> UInt64

    static let system = Outside(
        now: { Instant.now() }, sleep: { Thread.sleep(nanoseconds: $0) },
        random: {
            var random = SystemRandomNumberGenerator()
            return random.next()
        })
}

/// What the threads of one worker share.
///
/// Everything in it is constant, atomic or behind a lock.
final class WorkerShared: Sendable {
    let id: String
    let settings: WorkerSettings
    let apps: AppProfiles
    /// The signing key of each app.
    let credentials: [String: ProviderCredential]
    let log: Log
    let outside: Outside
    /// The leases to renew.
    let holds = Lock<Set<JobStore.Hold>>([])
    /// Whether the worker can do its work.
    let readiness = Lock(Readiness())
    /// What the send loop is doing; written by it at most every 100 ms.
    let loopStatus = Lock(LoopStatus())

    private let stopping = Atomic<Bool>(false)
    private let failure = Lock<String?>(nil)

    init(
        id: String, settings: WorkerSettings, apps: AppProfiles,
        credentials: [String: ProviderCredential], log: Log, outside: Outside = .system
    ) {
        self.id = id
        self.settings = settings
        self.apps = apps
        self.credentials = credentials
        self.log = log
        self.outside = outside
    }

    /// A lease is to be renewed from now on, or not any more.
    func hold(_ hold: JobStore.Hold, _ isHeld: Bool = true) {
        holds.withLock { holds in
            if isHeld { holds.insert(hold) } else { holds.remove(hold) }
        }
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

    /// The campaigns that this worker has shards of, in order.
    var heldCampaigns: [String] {
        let holds = holds.withLock { $0 }
        var campaigns: Set<String> = []
        for case .shard(let fence) in holds { campaigns.insert(fence.campaign) }
        return campaigns.sorted()
    }

    /// A connection to Redis of the calling thread's own.
    func makeStore(_ role: String) -> JobStore {
        let store = JobStore(
            RedisConnection(settings.redis, name: "peal-\(role)"), namespace: settings.namespace)
        store.replicas = settings.durability.replicas
        return store
    }

    /// Reads and checks a job, also against this worker's apps.
    ///
    /// - `isAccepted`: it was checked before, so that a deadline may have passed since.
    func read(
        _ raw: [UInt8], isAccepted: Bool = false
    ) -> Result<(job: Job, digest: String), JobFaults> {
        let now = isAccepted ? 0 : WallClock.milliseconds()
        do throws(JobFaults) {
            let job = try Job.parse(raw, now: now)
            let faults = apps.faults(of: job)
            guard faults.isEmpty else { return .failure(JobFaults(id: job.id, faults: faults)) }
            return .success((job, job.digest))
        } catch {
            let all = error.faults + apps.faults(ofApp: error.app)
            return .failure(JobFaults(id: error.id, app: error.app, faults: all))
        }
    }
}
