import Base
import Redis
import TestKit

/// Looks at Redis during a run, on a thread of its own: `peal audit` every second or so, and who
/// has the shards of dead workers.
final class Watch: Sendable {
    /// Time between two looks at the shards of the dead.
    static let lookInterval = Nanoseconds.milliseconds(200)
    /// Time between two audits.
    static let auditInterval = Nanoseconds.seconds(1)

    /// What was seen.
    struct Seen: Sendable {
        /// Audits that found no difference.
        var audits = 0
        /// What the others found.
        var differences: [String] = []
        /// Nanoseconds from each death until all its shards were taken back.
        var recoveries: [Int64] = []
        /// The same, where Redis was in trouble meanwhile: its time counts on top.
        var disturbed: [Int64] = []
    }

    private struct Death: Sendable {
        let at: Instant
        var shards: [ChaosRun.Shard]
        var isDisturbed = false
    }

    private struct State: Sendable {
        var seen = Seen()
        var deaths: [Death] = []
    }

    private let state = Lock(State())
    private let ended = Mailbox<Void>(limit: 1)
    private let thread: Base.Thread

    init(_ url: String) {
        let (state, ended) = (state, ended)
        thread = Base.Thread("watch") {
            guard let address = try? RedisAddress(parsing: url) else { return }
            let connection = RedisConnection(address, name: "watch", checksRole: false)
            var audited = Instant(nanoseconds: 0)
            while !ended.isClosed {
                try? Watch.look(connection, state)
                if Instant.now() - audited > Watch.auditInterval {
                    Watch.audit(url, state)
                    audited = Instant.now()
                }
                _ = ended.take(waitingAtMost: Watch.lookInterval)
            }
        }
    }

    var seen: Seen { state.withLock { $0.seen } }
    /// Dead workers whose shards are still theirs.
    var pending: Int { state.withLock { $0.deaths.count } }

    /// A worker has just died and left these shards.
    func died(_ shards: [ChaosRun.Shard]) {
        guard !shards.isEmpty else { return }
        state.withLock { $0.deaths.append(Death(at: Instant.now(), shards: shards)) }
    }

    /// Redis is in trouble: who recovers starts anew.
    func disturb() {
        state.withLock { state in
            for place in state.deaths.indices { state.deaths[place].isDisturbed = true }
        }
    }

    /// Ends the thread after its present look.
    func stop() {
        ended.close()
        thread.join()
    }

    private static func look(_ connection: RedisConnection, _ state: Lock<State>) throws {
        for death in state.withLock({ $0.deaths }) {
            var left: [ChaosRun.Shard] = []
            for shard in death.shards {
                let reply = try connection.command("HMGET", shard.key, "state", "owner")
                let fields = (reply.array ?? []).map(\.string)
                if fields == ["running", shard.owner] { left.append(shard) }
            }
            let rest = left
            state.withLock { state in
                guard let place = state.deaths.firstIndex(where: { $0.at == death.at }) else {
                    return
                }
                state.deaths[place].shards = rest
                guard rest.isEmpty else { return }
                let time = Instant.now() - death.at
                if state.deaths.remove(at: place).isDisturbed {
                    state.seen.disturbed.append(time)
                } else {
                    state.seen.recoveries.append(time)
                }
            }
        }
    }

    private static func audit(_ url: String, _ state: Lock<State>) {
        do {
            let process = try ChildProcess.peal(["audit"], environment: ["PEAL_REDIS": url])
            try blockUntil("an audit ends", within: .seconds(60)) { process.end != nil }
            state.withLock { state in
                switch process.end {
                case .exit(0): state.seen.audits += 1
                case .exit(1): state.seen.differences.append(process.output + process.errors)
                default: break  // Redis is away: nothing was seen
                }
            }
        } catch {
            state.withLock { $0.seen.differences.append("\(error)") }
        }
    }
}
