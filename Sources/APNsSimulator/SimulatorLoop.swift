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

    /// An answer that waits for its time; all wait equally long, so that they stand in order.
    private struct Waiting {
        let due: Instant
        let connection: SimulatorConnection
        let stream: Int32
        let answer: Answer
        let id: [UInt8]
    }

    let shared: SimulatorShared
    let port: Int
    var tokenCheck: ProviderTokenCheck
    private var lateness = Lateness()
    private let loop: EventLoop
    private let context: TLSContext
    private var listener: Listener?
    private var connections: [ObjectIdentifier: SimulatorConnection] = [:]
    private var waiting: [Waiting] = []
    private var firstWaiting = 0
    private var flushedAt = Instant.now()

    init(number: Int, port: Int, shared: SimulatorShared, context: TLSContext) throws {
        self.shared = shared
        self.context = context
        tokenCheck = ProviderTokenCheck(shared.configuration.providerTokens)
        loop = try EventLoop(name: "simulator \(number)", tick: SimulatorLoop.tick)
        let accept = Acceptor()
        let listener = try Listener(
            host: shared.configuration.host, port: port, loop: loop,
            shared: shared.configuration.loops > 1, accepted: { accept.loop?.accept($0) })
        self.port = listener.port
        self.listener = listener
        accept.loop = self
        loop.tickHandler = { [unowned self] in ticked() }
    }

    /// Lets the listener know its loop, which is made after it.
    private final class Acceptor { weak var loop: SimulatorLoop? }

    /// Any thread.
    func start() -> Thread {
        loop.submit { self.listener?.start() }
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

    /// Nanoseconds in the last second that the loop itself was late.
    func lateness(at now: Instant) -> Int64 {
        lateness.turn(at: loop.now, interval: SimulatorLoop.tick)
        return lateness.recent(at: now)
    }

    /// Keeps an answer until its time.
    func delay(
        _ answer: Answer, id: [UInt8], on stream: Int32, of connection: SimulatorConnection,
        from now: Instant
    ) {
        waiting.append(
            Waiting(
                due: now + shared.configuration.latency, connection: connection, stream: stream,
                answer: answer, id: id))
    }

    func remove(_ connection: SimulatorConnection) {
        connections[ObjectIdentifier(connection)] = nil
        guard connections.isEmpty else { return }
        loop.isTicking = false
        lateness.rest()
        waiting = []
        firstWaiting = 0
        shared.recorder?.flush()
    }

    private func accept(_ descriptor: Int32) {
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
        if firstWaiting < waiting.count { deliver(until: loop.now) }
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
            if next.connection.give(next.answer, id: next.id, on: next.stream) {
                touched.append(next.connection)
            }
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
