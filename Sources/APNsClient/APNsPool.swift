internal import APNs
package import Base
package import EventLoop
package import TLS
package import Telemetry
internal import Transport

/// The connections to APNs of one app's credential, for their loop only.
///
/// 1. Keeps `connections` open while it is started: resolves the host afresh for each one and
///    spreads them over its addresses, those that failed lately last.
/// 2. After failures waits longer and longer, with jitter; opens at most one connection a second
///    after the first round.
/// 3. Lets the connections take requests in turn, starting with another one each tick.
/// 4. Tells operators of openings, ends and outages, each once.
package final class APNsPool: ConnectionOwner {
    package let settings: PoolSettings
    /// The newest failure to connect, in words; nil while connections are up.
    package private(set) var lastFailure: String?

    private let name: String
    private let host: String
    private let port: Int
    private let context: TLSContext
    private let loop: EventLoop
    private unowned let source: any PushSource
    private unowned let credential: any CredentialSource
    private let log: Log
    private var connections: [APNsConnection] = []
    private var isStarted = false
    private var pending = 0  // look-ups under way
    private var rule: ReconnectRule
    private var addresses = AddressBook()
    private var rate: Int?
    private var outage = Outage()
    private var opened = 0
    private var turn = 0
    private var meter: RateMeter
    private var random: SeededRandom

    /// A pool that opens nothing before `start`.
    ///
    /// Its owner keeps `source` and `credential` alive. `name` is the app's in log lines, and
    /// `seed`
    /// decides jitter and the order of addresses.
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
        rate = settings.ratePerConnection
        rule = ReconnectRule(connections: settings.connections)
        meter = RateMeter(now: loop.now)
        random = SeededRandom(seed: seed)
    }

    /// Begins to open connections with the next `tick`.
    package func start() { isStarted = true }

    /// Opens and sends nothing new; what is under way may still be answered.
    package func stop() {
        isStarted = false
        for connection in connections { connection.drain("the worker stops") }
    }

    /// Says GOAWAY on every connection and closes it; what is not answered is unknown.
    package func closeAll() {
        isStarted = false
        for connection in connections { connection.closeInOrder(unknown: "Stopped") }
    }

    /// Changes the limit of each connection, in requests in any one second; nil for none.
    package func setRatePerConnection(_ limit: Int?) {
        rate = limit
        for connection in connections { connection.setRate(limit) }
    }

    /// Connections that take requests.
    package var openConnections: Int { connections.count { $0.state == .open } }
    /// Requests without an outcome.
    package var inFlight: Int { connections.reduce(0) { $0 + $1.inFlight } }

    package var status: PoolStatus {
        PoolStatus(
            openConnections: openConnections,
            drainingConnections: connections.count { $0.state == .draining },
            wantedConnections: settings.connections, inFlight: inFlight,
            requestsPerSecond: meter.perSecond, requests: meter.total, lastFailure: lastFailure)
    }

    /// One turn of all connections: every millisecond or so while there is work, and at least every
    /// second while the pool is started.
    package func tick(now: Instant) {
        loop.preconditionOnLoop()
        openMissing(now)
        guard !connections.isEmpty else { return }
        turn &+= 1
        let all = connections
        for offset in all.indices {
            let connection = all[(turn &+ offset) % all.count]
            let before = connection.requests
            connection.tick(now)
            meter.add(connection.requests - before)
        }
        meter.turn(now)
    }

    private func openMissing(_ now: Instant) {
        guard isStarted else { return }
        let present = connections.count { $0.state == .open || $0.state == .connecting }
        for _ in 0..<max(0, settings.connections - present - pending) {
            guard rule.mayOpen(now) else { return }
            rule.opening(now)
            pending += 1
            let pool = Unchecked(self)
            NameLookup.resolve(host: host, port: port, on: loop) { pool.value.resolved($0) }
        }
    }

    private func resolved(_ result: Result<[SocketAddress], SystemError>) {
        pending -= 1
        guard isStarted else { return }
        switch result {
        case .failure(let error): failed(error.description)
        case .success(let found):
            let order = addresses.order(
                found, now: loop.now, deadTime: settings.deadAddressTime, random: &random)
            var failure = "\(host) has no address"
            // An address that fails at once, such as IPv6 without a route, gives way to the next.
            for address in order {
                do {
                    try open(address)
                    return
                } catch {
                    failure = "\(error)"
                    addresses.failed(address, now: loop.now)
                }
            }
            failed(failure)
        }
    }

    private func open(_ address: SocketAddress) throws {
        let connection = try APNsConnection(
            number: opened + 1, to: address, host: host, context: context, loop: loop,
            settings: settings, source: source, credential: credential,
            ageFraction: random.fraction(), owner: self)
        opened += 1
        if rate != settings.ratePerConnection { connection.setRate(rate) }
        addresses.opened(address)
        connections.append(connection)
    }

    private func failed(_ why: String) {
        rule.failed(loop.now, fraction: random.fraction())
        lastFailure = why
        let fields: [(String, LogValue)] = [
            ("app", .text(name)), ("server", .text("\(host):\(port)")),
        ]
        switch outage.failed(now: loop.now) {
        case .first?:
            log.error("apns_unreachable", "\(why); nothing was sent, trying again", fields)
        case .again(let count, let seconds)?:
            log.error(
                "apns_unreachable", "still: \(why)",
                fields + [("failures", .number(count)), ("seconds", .number(seconds))])
        case nil: break
        }
    }

    // MARK: Connections

    func connectionOpened(_ connection: APNsConnection) {
        lastFailure = nil
        addresses.healthy(connection.address)
        if let seconds = outage.succeeded(now: loop.now) {
            log.info(
                "apns_back", "APNs can be reached again",
                [("app", .text(name)), ("seconds", .number(seconds))])
        }
        log.info("connection_opened", "ready to send", fields(connection))
    }

    func connectionProven(_ connection: APNsConnection) { rule.proven() }

    func isAnotherWell(than connection: APNsConnection) -> Bool {
        connections.contains {
            $0 !== connection && $0.state == .open && $0.isProven && $0.serverErrors == 0
        }
    }

    func connectionDraining(_ connection: APNsConnection, _ why: String) {
        guard isStarted else { return }
        log.info("connection_draining", "it is replaced: \(why)", fields(connection))
        // One that never was of use is not replaced at once: that would go round in a circle.
        if !connection.isProven { rule.failed(loop.now, fraction: random.fraction()) }
    }

    func connectionClosed(_ connection: APNsConnection, _ why: SocketFailure?) {
        connections.removeAll { $0 === connection }
        addresses.closed(connection.address)
        switch why {
        case nil:
            log.info("connection_closed", "in good order", fields(connection))
            // One that was drained was judged then.
            guard isStarted, !connection.isProven, !connection.wasDrained else { return }
            rule.failed(loop.now, fraction: random.fraction())
        case .broken(let text)?:
            log.warning("connection_lost", text, fields(connection))
            addresses.failed(connection.address, now: loop.now)
            rule.failed(loop.now, fraction: random.fraction())
        case .some(let failure):
            addresses.failed(connection.address, now: loop.now)
            failed(failure.description)
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
