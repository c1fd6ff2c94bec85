import Base
import Redis

/// A real redis-server with a clock of its own that jumps, restarts, and goes back to older data.
///
/// The scripts run as they are, apart from where they take the time from.
final class SimulatedRedis {
    /// What the clock shows at the start of a run, in milliseconds.
    static let epoch: Int64 = 1_800_000_000_000

    /// Changes a script: its name and source.
    typealias Rewrite = (String, String) -> String

    private let world: World
    private let connection: RedisConnection
    private let label: String
    private let rewrite: Rewrite
    private var scripts: [String: RedisScript] = [:]
    /// How far the clock has jumped, in milliseconds.
    private(set) var offset: Int64 = 0
    /// Counts restarts: connections of before are broken.
    private(set) var restarts = 0
    /// It takes no connections before this moment.
    private(set) var downUntil: Instant
    private var hasCopy = false

    /// - `label`: names the rewritten scripts.
    init(_ world: World, _ connection: RedisConnection, label: String, rewrite: @escaping Rewrite) {
        self.world = world
        self.connection = connection
        self.label = label
        self.rewrite = rewrite
        downUntil = world.now
    }

    var identity: String { "redis-\(restarts)" }
    var isDown: Bool { world.now < downUntil }
    var milliseconds: Int64 { SimulatedRedis.epoch + world.milliseconds + offset }

    func jump(_ milliseconds: Int64) { offset += milliseconds }

    func restart(down milliseconds: Int) {
        restarts += 1
        downUntil = world.now + Nanoseconds.milliseconds(milliseconds)
    }

    /// Keeps a copy of the data as it is now.
    func copy() {
        hasCopy = true
        _ = plain([
            "EVAL",
            """
            redis.call('SELECT', 1) redis.call('FLUSHDB') redis.call('SELECT', 0)
            for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', key, key, 'DB', 1)
            end
            """, "0",
        ])
    }

    /// Puts the copy back, as a server does that restarts on an older disk.
    ///
    /// False when there is none.
    func rollBack(down milliseconds: Int) -> Bool {
        guard hasCopy else { return false }
        hasCopy = false
        _ = plain(["SWAPDB", "0", "1"])
        restart(down: milliseconds)
        return true
    }

    func empty() { _ = plain(["FLUSHALL"]) }

    /// A command that no fault touches.
    @discardableResult
    func plain(_ words: [String]) -> RedisReply {
        do { return try connection.command(words.map { Array($0.utf8) }) } catch {
            preconditionFailure("the simulation's Redis failed at \(words[0]): \(error)")
        }
    }

    /// What a connection carries to Redis.
    enum Call {
        case commands([[[UInt8]]])
        case scripts([(script: RedisScript, keys: [[UInt8]], arguments: [[UInt8]])])

        /// For faults and traces.
        var label: String {
            switch self {
            case .commands(let commands):
                String(decoding: commands.first?.first ?? [], as: UTF8.self).lowercased()
            case .scripts(let calls): calls.first?.script.name ?? ""
            }
        }
    }

    func execute(_ call: Call) -> [RedisReply] {
        do throws(RedisError) {
            switch call {
            case .commands(let commands):
                return try connection.pipeline(commands.map { unblocked($0) })
            case .scripts(let calls):
                let seconds = Array(String(milliseconds / 1000).utf8)
                let micros = Array(String(milliseconds % 1000 * 1000).utf8)
                return try connection.run(
                    calls.map { (rewritten($0.script), $0.keys + [seconds, micros], $0.arguments) })
            }
        } catch { preconditionFailure("the simulation's Redis failed at \(call.label): \(error)") }
    }

    /// A wait in Redis would hold all workers up: they wait in virtual time.
    private func unblocked(_ command: [[UInt8]]) -> [[UInt8]] {
        guard command[0] == Array("BLMOVE".utf8) else { return command }
        return [Array("LMOVE".utf8)] + command.dropFirst().dropLast()
    }

    private func rewritten(_ script: RedisScript) -> RedisScript {
        if let known = scripts[script.name] { return known }
        let source = String(decoding: script.source, as: UTF8.self)
        let time = "local clock = redis.call('TIME')"
        precondition(source.contains(time), "the prelude takes the time in another way")
        let timed = source.replacing(time, with: "local clock = { KEYS[2], KEYS[3] }")
        let result = RedisScript(
            name: "\(script.name)/\(label)", source: Array(rewrite(script.name, timed).utf8))
        scripts[script.name] = result
        return result
    }
}

/// A connection of one thread of a worker, whose calls take time, get lost and come late.
final class SimulatedLink: RedisLink {
    let name: String
    private(set) var identity = ""
    private(set) var generation = 0
    private var isOpen = false
    private var restarts = 0
    private unowned let worker: SimulatedWorker

    init(_ worker: SimulatedWorker, _ name: String) {
        self.worker = worker
        self.name = name
    }

    /// Of a kind that nobody waits out, so that the threads of a dead worker end.
    private static let dead = RedisError(reply: "DEAD the worker is dead", to: "a call")

    func connect() throws(RedisError) {
        guard worker.isAlive else { throw SimulatedLink.dead }
        let redis = worker.simulation.redis
        if isOpen { return }
        worker.pause(milliseconds: 1)
        guard worker.isAlive else { throw SimulatedLink.dead }
        guard !redis.isDown, !worker.isCut else {
            throw RedisError(.unreachable, "the simulated Redis cannot be reached")
        }
        identity = redis.identity
        restarts = redis.restarts
        generation += 1
        isOpen = true
    }

    func close() { isOpen = false }

    func pipeline(
        _ commands: [[[UInt8]]], within limit: Int64
    ) throws(RedisError) -> [RedisReply] {
        try carry(.commands(commands))
    }

    func run(
        _ calls: [(script: RedisScript, keys: [[UInt8]], arguments: [[UInt8]])],
        trailer: [[[UInt8]]]
    ) throws(RedisError) -> [RedisReply] {
        precondition(trailer.isEmpty, "the simulation has no replicas")
        return try carry(.scripts(calls))
    }

    private func carry(_ call: SimulatedRedis.Call) throws(RedisError) -> [RedisReply] {
        try connect()
        let (simulation, world) = (worker.simulation, worker.world)
        let redis = simulation.redis
        let fate = simulation.faults.fate(of: call.label, worker)
        if fate != .fine { world.note("\(worker.id) \(name) \(call.label): \(fate)") }
        if fate == .killBefore {
            worker.kill("before \(call.label)")
            throw SimulatedLink.dead
        }
        let opened = restarts
        if case .late(let milliseconds) = fate {
            world.after(milliseconds: milliseconds) {
                guard redis.restarts == opened else { return }
                world.note("late \(call.label)")
                simulation.observe(call, redis.execute(call))
            }
        }
        var replies: [RedisReply]?
        let wake = worker.makeWake()
        world.after(simulation.travel()) { [worker] in
            let isThrough = redis.restarts == opened && !redis.isDown && !worker.isCut
            var wait = simulation.travel()
            if isThrough, fate.isExecuted {
                if fate == .rollBack || fate == .copy
                    || simulation.faults.wantsCopy(before: call.label)
                {
                    redis.copy()
                }
                let answer = redis.execute(call)
                simulation.observe(call, answer)
                if [.fine, .killAfter, .freeze, .copy, .longFreeze].contains(fate) {
                    replies = answer
                }
            }
            if replies == nil { wait = Int64(world.pick(20...400)) * 1_000_000 }
            switch fate {
            case .rollBack, .rollBackToCopy: simulation.rollBack("with the reply of \(call.label)")
            case .killAfter: worker.kill("after \(call.label)")
            case .freeze: worker.freeze(milliseconds: world.pick(100...40_000))
            case .longFreeze: worker.freeze(milliseconds: world.pick(23_000...28_000))
            case .away:
                worker.freeze(milliseconds: world.pick(4500...9000))
                simulation.rollBack("while \(worker.id) is away")
            default: break
            }
            wake(wait)
        }
        worker.wait()
        guard worker.isAlive, !world.isOver else { throw SimulatedLink.dead }
        guard let replies else {
            isOpen = false
            throw RedisError(.lost, "the simulated connection broke")
        }
        world.note("\(worker.id) \(call.label) \(summary(replies))")
        if call.label == "claim", replies[0].array?.count == 10 {
            simulation.faults.claimed(by: worker.id)
        }
        return replies
    }

    /// What a trace keeps of replies.
    private func summary(_ replies: [RedisReply]) -> String {
        replies.map { reply in
            switch reply {
            case .array(let items):
                items.prefix(5).map { $0.string?.prefix(24) ?? "\($0.array?.count ?? -1)" }
                    .joined(separator: ",")
            case .error(let text): text
            default: String((reply.string ?? "-").prefix(24))
            }
        }.joined(separator: ";")
    }
}
