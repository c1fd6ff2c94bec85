internal import APNs
package import Base
package import EventLoop
package import TLS
package import Telemetry
internal import Transport

/// The connections to APNs of one app's credential on one loop. Loop only.
///
/// 1. Keeps `connections` open while it is started: resolves the host afresh for each one and goes
///    round the addresses in shuffled order.
/// 2. After failures waits longer and longer, with jitter; opens at most one connection a second
///    after the first round.
/// 3. Lets the connections take requests in turn, starting with another one each tick.
/// 4. Tells operators of openings, ends and outages, each once.
package final class APNsPool: ConnectionOwner {
    /// Time between two new connections after the first round (nanoseconds).
    static let openInterval = Nanoseconds.seconds(1)

    package let settings: PoolSettings
    /// The newest failure to connect, in words; nil while connections are up.
    package private(set) var lastFailure: String?

    private let name: String
    private let host: String
    private let port: Int
    private let context: TLSContext
    private let loop: EventLoop
    private unowned let source: any PushSource
    private let credential: any CredentialSource
    private let log: Log
    private var connections: [APNsConnection] = []
    private var isStarted = false
    private var pending = 0  // look-ups under way
    private var failures = 0
    private var nextOpening: Instant
    private var firstRound: Int
    private var outage = Outage()
    private var opened = 0
    private var turn = 0
    private var round = 0
    private var random: SeededRandom

    /// - Parameters:
    ///   - name: the app, for log lines.
    ///   - seed: decides jitter and the order of addresses.
    package init(
        name: String, host: String, port: Int, context: TLSContext, loop: EventLoop,
        settings: PoolSettings, source: any PushSource, credential: any CredentialSource,
        seed: UInt64, log: Log
    ) {
        self.name = name
        self.host = host
        self.port = port
        self.context = context
        self.loop = loop
        self.settings = settings
        self.source = source
        self.credential = credential
        self.log = log
        random = SeededRandom(seed: seed)
        nextOpening = loop.now
        firstRound = settings.connections
    }

    package func start() { isStarted = true }

    /// Opens nothing new; what is under way may still be answered.
    package func stop() {
        isStarted = false
        for connection in connections { connection.drain("the worker stops") }
    }

    /// Ends everything now.
    package func closeAll() {
        isStarted = false
        for connection in connections { connection.close(nil) }
    }

    /// Connections that take requests.
    package var openConnections: Int { connections.count { $0.state == .open } }
    package var inFlight: Int { connections.reduce(0) { $0 + $1.inFlight } }

    /// One turn of all connections.
    package func tick(now: Instant) {
        openMissing(now)
        guard !connections.isEmpty else { return }
        turn += 1
        let all = connections
        for offset in all.indices { all[(turn + offset) % all.count].tick(now) }
    }

    private func openMissing(_ now: Instant) {
        guard isStarted, now >= nextOpening else { return }
        let present = connections.count { $0.state == .open || $0.state == .connecting }
        guard present + pending < settings.connections else { return }
        if firstRound > 0 { firstRound -= 1 } else { nextOpening = now + APNsPool.openInterval }
        pending += 1
        let pool = Unchecked(self)
        NameLookup.resolve(host: host, port: port, on: loop) { pool.value.resolved($0) }
    }

    private func resolved(_ result: Result<[SocketAddress], SystemError>) {
        pending -= 1
        guard isStarted else { return }
        switch result {
        case .failure(let error): failed(error.description)
        case .success(let addresses):
            // A shuffled start, then one after the other, so that connections spread.
            if round == 0 { round = Int(random.next() & 0xFFFF) }
            round += 1
            let address = addresses[round % addresses.count]
            opened += 1
            do {
                connections.append(
                    try APNsConnection(
                        number: opened, to: address, host: host, context: context, loop: loop,
                        settings: settings, source: source, credential: credential,
                        ageFraction: random.fraction(), owner: self))
            } catch {
                failed("\(error)")
            }
        }
    }

    private func failed(_ why: String) {
        failures += 1
        lastFailure = why
        nextOpening = loop.now + ReconnectPolicy.pause(failures: failures, fraction: random.fraction())
        let fields: [(String, LogValue)] = [("app", .text(name)), ("server", .text("\(host):\(port)"))]
        switch outage.failed(now: loop.now) {
        case .first?: log.error("apns_unreachable", "\(why); nothing was sent, trying again", fields)
        case .again(let count, let seconds)?:
            log.error(
                "apns_unreachable", "still: \(why)",
                fields + [("failures", .number(count)), ("seconds", .number(seconds))])
        case nil: break
        }
    }

    func connectionOpened(_ connection: APNsConnection) {
        failures = 0
        lastFailure = nil
        if let seconds = outage.succeeded(now: loop.now) {
            log.info("apns_back", "APNs can be reached again", [("app", .text(name)), ("seconds", .number(seconds))])
        }
        log.debug("connection_opened", "ready to send", fields(connection))
    }

    func connectionDraining(_ connection: APNsConnection, _ why: String) {
        guard isStarted else { return }
        log.info("connection_draining", "it is replaced: \(why)", fields(connection))
    }

    func connectionClosed(_ connection: APNsConnection, _ why: SocketFailure?) {
        connections.removeAll { $0 === connection }
        switch why {
        case nil: log.debug("connection_closed", "in good order", fields(connection))
        case .broken(let text)?:
            log.warning("connection_lost", text, fields(connection))
            failures += 1
            nextOpening =
                loop.now + ReconnectPolicy.pause(failures: failures, fraction: random.fraction())
        case .some(let failure): failed(failure.description)
        }
    }

    private func fields(_ connection: APNsConnection) -> [(String, LogValue)] {
        [
            ("app", .text(name)), ("connection", .number(connection.number)),
            ("address", .text(connection.address.description)),
            ("requests", .number(connection.requests)),
        ]
    }
}

/// Carries a loop-only object through a closure that runs on its loop again.
struct Unchecked<Value>: @unchecked Sendable {
    let value: Value
    init(_ value: Value) { self.value = value }
}
