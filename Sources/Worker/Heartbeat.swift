internal import Base
internal import EventLoop
internal import JobQueue
internal import Redis
internal import Synchronization
internal import Telemetry

/// Says that this worker lives and renews its leases, on a thread and a connection of its own.
///
/// So a saturated send loop keeps its shards; a loop that hangs loses them. Beside that it tries
/// whether Redis takes new data.
final class Heartbeat: Sendable {
    /// A third of a lease.
    static let interval = Nanoseconds.seconds(4)
    /// A loop that has not turned for this long is hung: its shards are not renewed.
    static let hungAfter = Nanoseconds.seconds(5)

    private let shared: WorkerShared
    private let loop: EventLoop
    private let fields: @Sendable () -> [String: String]
    private let lost: @Sendable (Set<JobStore.Hold>) -> Void
    private let ended = Mailbox<Void>(limit: 1)

    /// - `fields`: what dashboards read in `worker:<id>`.
    /// - `lost`: called with the leases that are somebody else's now.
    init(
        _ shared: WorkerShared, loop: EventLoop, fields: @escaping @Sendable () -> [String: String],
        lost: @escaping @Sendable (Set<JobStore.Hold>) -> Void
    ) {
        self.shared = shared
        self.loop = loop
        self.fields = fields
        self.lost = lost
    }

    /// Ends the thread at once.
    func stop() { ended.close() }

    func run() {
        let store = shared.makeStore("heartbeat")
        var backoff = Backoff("heartbeat", shared.readiness)
        while !ended.isClosed {
            let isHung = Instant.now() - loop.lastTurn > Heartbeat.hungAfter
            let holds = shared.holds.withLock { Array($0) }.filter { hold in
                if case .shard = hold { !isHung } else { true }
            }
            if isHung {
                shared.log.error(
                    "loop_hung", "the send loop has not turned for 5 s; its shards go to others")
            }
            do throws(RedisError) {
                let gone = try store.heartbeat(worker: shared.id, fields: fields(), holds: holds)
                backoff.succeeded(shared.log)
                if !gone.isEmpty { lost(gone) }
                probe(store)
                _ = ended.take(waitingAtMost: Heartbeat.interval)
            } catch {
                guard error.isWaitedOut else {
                    shared.fail("heartbeat", error)
                    return
                }
                _ = ended.take(waitingAtMost: backoff.failed(error, shared.log))
            }
        }
    }

    /// Looks whether Redis takes new data; the leases are renewed whatever comes of it.
    private func probe(_ store: JobStore) {
        do throws(RedisError) {
            try store.probe(worker: shared.id)
            shared.readiness.withLock { $0.wrote(now: Instant.now()) }
        } catch {
            shared.readiness.withLock { $0.failed(Readiness.probe, error) }
        }
    }
}
