internal import Base
internal import EventLoop
internal import TLS
internal import Transport

/// One thread of a simulator: its listener, its connections and the answers that wait.
///
/// Everything but `start` and `shutDown` is for the loop's thread only.
final class SimulatorLoop: @unchecked Sendable {
    /// How often waiting answers are looked at while there are connections: 1 ms.
    ///
    /// It also lets one wake-up serve many requests.
    static let tick: Int64 = 1_000_000

    /// An answer that waits for its time.
    private struct Waiting {
        let due: Instant
        let connection: SimulatorConnection
        let reply: Reply
    }

    let shared: SimulatorShared
    let port: Int
    var tokenCheck: ProviderTokenCheck
    /// The script that rules now, or nil.
    private(set) var run: ScriptRun?
    /// Its settings, or those of an empty script.
    private(set) var settings = ScriptSettings()
    let loop: EventLoop
    private var lateness = Lateness()
    private let contexts: SimulatorContexts
    private var listener: Listener?
    private var connections: [ObjectIdentifier: SimulatorConnection] = [:]
    /// Answers that wait equally long, so that they stand in order.
    private var waiting: [Waiting] = []
    private var firstWaiting = 0
    /// Answers that a script has wait otherwise, by when they are due.
    private var uneven = MinHeap<Waiting>()
    private var flushedAt = Instant.now()

    init(number: Int, port: Int, shared: SimulatorShared, contexts: SimulatorContexts) throws {
        self.shared = shared
        self.contexts = contexts
        tokenCheck = ProviderTokenCheck(shared.configuration.providerTokens)
        loop = try EventLoop(name: "simulator \(number)", tick: SimulatorLoop.tick)
        let listener = try Listener(
            host: shared.configuration.host, port: port, loop: loop,
            shared: shared.configuration.loops > 1)
        self.port = listener.port
        self.listener = listener
        if let script = shared.script { follow(script) }
        loop.tickHandler = { [unowned self] in ticked() }
    }

    /// Any thread.
    func start() -> Thread {
        loop.submit { self.listener?.start { [weak self] in self?.accept($0) } }
        return loop.start()
    }

    /// Any thread.
    func shutDown() {
        loop.submit {
            self.listener?.stop()
            self.listener = nil
            self.deliver(until: nil)
            for connection in self.connections.values { connection.goAway() }
            self.connections = [:]
            self.loop.stop()
        }
    }

    /// The rate rule of a connection, as of now.
    var rateRule: RateRule {
        RateRule(limit: settings.ratePerConnection ?? shared.configuration.rateLimit)
    }

    /// Nanoseconds in the last second that the loop itself was late.
    func lateness(at now: Instant) -> Int64 {
        lateness.turn(at: loop.now, interval: SimulatorLoop.tick)
        return lateness.recent(at: now)
    }

    /// Keeps an answer until its time.
    func delay(_ reply: Reply, of connection: SimulatorConnection) {
        waiting.append(
            Waiting(
                due: reply.moment + shared.configuration.latency, connection: connection,
                reply: reply))
    }

    /// Keeps an answer for so many nanoseconds.
    func delay(_ reply: Reply, by wait: Int64, of connection: SimulatorConnection) {
        let due = reply.moment + wait
        uneven.add(
            Waiting(due: due, connection: connection, reply: reply), key: due.nanoseconds)
    }

    /// Has a script rule from now on, also open connections.
    func follow(_ run: ScriptRun) {
        self.run = run
        settings = run.settings
        var rules = shared.configuration.providerTokens
        if let age = settings.tokenMaximumAge { rules.maximumAge = age }
        if !settings.hasUpdateRule { rules.changeInterval = 0 }
        tokenCheck = ProviderTokenCheck(rules)
        for connection in connections.values { connection.renewRate() }
    }

    /// Does something to one connection or all, and says to how many.
    func perform(_ action: ImmediateDeed) -> Int {
        let chosen = connections.values.filter {
            $0.isOpen && (action.connection == nil || action.connection == $0.number)
        }
        for connection in chosen { connection.perform(action.deed) }
        return chosen.count
    }

    func remove(_ connection: SimulatorConnection) {
        connections[ObjectIdentifier(connection)] = nil
        guard connections.isEmpty else { return }
        deliver(until: nil)
        loop.isTicking = false
        lateness.rest()
        shared.recorder?.flush()
    }

    private func accept(_ descriptor: Int32) {
        let context = settings.requiresALPN ? contexts.strict : contexts.lax ?? contexts.strict
        guard
            let socket = try? SecureSocket(accepted: descriptor, context: context, loop: loop)
        else { return }
        let connection = SimulatorConnection(socket: socket, owner: self)
        socket.owner = connection
        connections[ObjectIdentifier(connection)] = connection
        loop.isTicking = true
    }

    private func ticked() {
        lateness.turn(at: loop.now, interval: SimulatorLoop.tick)
        if firstWaiting < waiting.count || uneven.count > 0 { deliver(until: loop.now) }
        if let recorder = shared.recorder, loop.now - flushedAt >= Recorder.interval {
            recorder.flush()
            flushedAt = loop.now
        }
    }

    /// Gives the answers that are due, or all, and sends once for each connection.
    private func deliver(until now: Instant?) {
        var touched: [SimulatorConnection] = []
        while firstWaiting < waiting.count {
            let next = waiting[firstWaiting]
            if let now, next.due > now { break }
            firstWaiting += 1
            if next.connection.give(next.reply) { touched.append(next.connection) }
        }
        while let next = uneven.first?.element {
            if let now, next.due > now { break }
            uneven.removeFirst()
            if next.connection.give(next.reply) { touched.append(next.connection) }
        }
        if firstWaiting == waiting.count {
            waiting.removeAll(keepingCapacity: true)
            firstWaiting = 0
        } else if firstWaiting > 4096 {
            waiting.removeFirst(firstWaiting)
            firstWaiting = 0
        }
        for connection in touched { connection.flush() }
    }
}
