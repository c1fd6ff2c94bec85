internal import Base
internal import JobQueue
internal import Redis
internal import Telemetry

/// Takes back what dead workers held and wakes parked shards, on a thread of its own.
///
/// Every worker does; nothing waits for a start-up.
///
/// 1. A lease seen expired twice, half a lease apart on this machine's monotonic clock and with
///    unchanged epoch and revision, is taken back: a clock that jumps takes nothing from the
///    living.
/// 2. Jobs that a dead worker had taken go back to the intake list.
/// 3. Parked shards that are due become claimable.
final class Recovery: Sendable {
    static let interval = Nanoseconds.seconds(1)
    /// Time between the two looks at a lease.
    static let secondLook = Nanoseconds.milliseconds(JobStore.leaseMilliseconds / 2)

    private let shared: WorkerShared
    private let unparked: @Sendable () -> Void

    init(_ shared: WorkerShared, unparked: @escaping @Sendable () -> Void) {
        self.shared = shared
        self.unparked = unparked
    }

    func run() {
        let store = shared.makeStore("recovery")
        var backoff = Backoff("recover")
        var seen: [JobStore.Expired: Instant] = [:]
        while !shared.isStopping {
            do throws(RedisError) {
                try turn(store, &seen, now: Instant.now())
                backoff.succeeded(shared.log)
                pause(Recovery.interval)
            } catch {
                guard error.isTransient else {
                    shared.fail("recovering", error)
                    return
                }
                seen.removeAll()  // what was seen before the trouble proves nothing
                pause(backoff.failed(error, shared.log))
            }
        }
    }

    /// One turn of the thread.
    ///
    /// - `seen`: when each expired lease was seen for the first time.
    func turn(
        _ store: JobStore, _ seen: inout [JobStore.Expired: Instant], now: Instant
    ) throws(RedisError) {
        if try store.unpark() > 0 { unparked() }
        let (leases, workers) = try store.expired()
        var still: [JobStore.Expired: Instant] = [:]
        for lease in leases {
            let first = seen[lease] ?? now
            guard now - first >= Recovery.secondLook else {
                still[lease] = first
                continue
            }
            let fields: [(String, LogValue)] = [("lease", .text(lease.member))]
            switch try store.reclaim(lease) {
            case .kept: break
            case .plan:
                shared.log.warning(
                    "plan_recovered", "its worker is gone; the plan is made again", fields)
            case .shard(let resent, let unknown):
                shared.log.warning(
                    "shard_recovered", "its worker is gone; the shard goes on with another one",
                    fields + [("in_flight_again", .number(resent)), ("unknown", .number(unknown))])
            }
        }
        seen = still
        for worker in workers where worker != shared.id {
            let jobs = try store.adoptOrphans(of: worker)
            if jobs > 0 {
                shared.log.warning(
                    "jobs_recovered", "their worker is gone; they are back on the intake list",
                    [("dead_worker", .text(worker)), ("jobs", .number(jobs))])
            }
        }
    }

    private func pause(_ length: Int64) {
        let end = Instant.now() + length
        while !shared.isStopping, Instant.now() < end {
            Thread.sleep(nanoseconds: min(end - Instant.now(), Nanoseconds.milliseconds(100)))
        }
    }
}
