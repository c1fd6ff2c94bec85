internal import Base
internal import EventLoop
internal import TLS

/// An APNs server on a local address, for tests, demonstrations and measurements.
///
/// 1. It speaks HTTP/2 over TLS as APNs does: the same SETTINGS, one stream until the first request
///    with a good provider token, then 1000 ("Sending notification requests to APNs").
/// 2. It judges requests by a table of its own (`RequestCheck`), never by the sender's.
/// 3. It makes chosen shares of the device tokens fare badly (`Population`), alike in each run.
/// 4. It records what arrived (`Recorder`).
/// 5. It misbehaves by a script (`Script`), which can be changed while it runs (`ControlServer`).
///
/// All of it runs on its own threads; every method may be called from any thread.
package final class Simulator: Sendable {
    /// The port it listens on.
    package let port: Int

    private let shared: SimulatorShared
    private let loops: [SimulatorLoop]
    private let control: ControlServer?
    private let threads = Lock<[Thread]>([])

    /// The port of the control endpoint, or nil.
    package var controlPort: Int? { control?.port }

    /// Opens the port; connections are taken from `start` on.
    package init(configuration: SimulatorConfiguration) throws {
        let contexts = try SimulatorContexts(configuration)
        shared = try SimulatorShared(configuration)
        var port = configuration.port
        var loops: [SimulatorLoop] = []
        for number in 0..<max(1, configuration.loops) {
            let loop = try SimulatorLoop(
                number: number, port: port, shared: shared, contexts: contexts)
            port = loop.port
            loops.append(loop)
        }
        self.loops = loops
        self.port = port
        control = try configuration.control.map { [shared] in
            try ControlServer(port: $0, desk: ControlDesk(shared: shared, loops: loops))
        }
    }

    package func start() {
        threads.withLock { threads in
            precondition(threads.isEmpty, "a simulator is started once")
            threads = loops.map { $0.start() }
            if let control { threads.append(control.start()) }
        }
    }

    /// Answers what is waiting, says GOAWAY to all, and ends the threads; the record is complete
    /// then.
    ///
    /// A simulator that is dropped stops too.
    package func stop() {
        threads.withLock { threads in
            guard !threads.isEmpty else { return }
            control?.shutDown()
            for loop in loops { loop.shutDown() }
            for thread in threads { thread.join() }
            threads = []
        }
        shared.recorder?.close()
    }

    deinit { stop() }

    package var counts: SimulatorCounts { shared.counts.withLock { $0 } }

    /// Why the record is not complete, or nil.
    package var recordFailure: String? { shared.recorder?.failure }
}

/// The TLS contexts of a simulator: the second one takes clients without ALPN.
struct SimulatorContexts: Sendable {
    let strict: TLSContext
    /// Nil where no script can ask for it.
    let lax: TLSContext?

    init(_ configuration: SimulatorConfiguration) throws {
        strict = try TLSContext(
            serverCertificate: configuration.certificate, key: configuration.key)
        lax =
            configuration.isScriptable
            ? try TLSContext(
                serverCertificate: configuration.certificate, key: configuration.key,
                requiresALPN: false) : nil
    }
}

/// What the threads of one simulator share.
final class SimulatorShared: Sendable {
    let configuration: SimulatorConfiguration
    let check: RequestCheck
    let recorder: Recorder?
    let counts = Lock(SimulatorCounts())
    let failures = Lock(FailureTable())
    /// What each connection did, for the control endpoint; nil without one.
    let reports: Lock<ConnectionReports>?
    /// The script to begin with, or nil.
    let script: ScriptRun?
    private let connections = Lock(0)
    /// When it started, in milliseconds since the epoch; 410 times lie before it.
    let startedAt = WallClock.milliseconds()

    init(_ configuration: SimulatorConfiguration) throws {
        self.configuration = configuration
        check = RequestCheck(topics: configuration.topics)
        recorder = try configuration.record.map { try Recorder(path: $0) }
        script = configuration.script.map(ScriptRun.init)
        reports = configuration.control == nil ? nil : Lock(ConnectionReports())
    }

    /// The number of a new connection, from 1.
    func nextConnection() -> Int {
        counts.withLock { $0.connections += 1 }
        return connections.withLock {
            $0 += 1
            return $0
        }
    }

    /// How a device token that passed the checks fares.
    func answer(forToken token: ArraySlice<UInt8>) -> Answer {
        switch configuration.population.fate(of: token) {
        case .accepted: return .accepted
        case .gone(let fault, let before):
            return .refused(fault, timestamp: startedAt - before)
        case .bad: return .refused(.badDeviceToken, timestamp: nil)
        case .transient(let answer, let count, let key):
            let fails = failures.withLock { $0.fails(key, failures: count) }
            return fails ? answer : .accepted
        }
    }
}
