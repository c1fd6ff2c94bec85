internal import APNs
internal import Base
internal import EventLoop
internal import HTTP2
internal import TLS
internal import Transport

/// What a pool hears of its connections.
protocol ConnectionOwner: AnyObject {
    func connectionOpened(_ connection: APNsConnection)
    /// APNs answered a request and found no fault with the connection.
    func connectionProven(_ connection: APNsConnection)
    /// It takes nothing new any more and should be replaced.
    func connectionDraining(_ connection: APNsConnection, _ why: String)
    /// It is gone; all its requests were reported. Nil: in good order.
    func connectionClosed(_ connection: APNsConnection, _ why: SocketFailure?)
    /// Another connection is open and gets other answers than 500.
    func isAnotherWell(than connection: APNsConnection) -> Bool
}

/// One connection to APNs, for its loop only.
///
/// 1. Connects, then sends one request alone until the first answer (token-authenticated
///    connections start with one stream; "Sending notification requests to APNs").
/// 2. Takes as many requests per tick as pacing, the server's stream limit, its window and the
///    kernel allow.
/// 3. Reports each request exactly once: answered, not processed, or unknown.
/// 4. Notices silence (request deadline, PING) and ends the connection for it.
/// 5. Drains on GOAWAY, on advice of an answer, at its maximum age, when stream ids run out.
///
/// What an event asks for (`wish`) is done after all events of a turn were taken, so that every
/// answer that has arrived counts.
final class APNsConnection: SecureSocketOwner {
    enum State { case connecting, open, draining, closed }

    let number: Int
    let address: SocketAddress
    var state = State.connecting
    var inFlight: Int { flights.count }
    private(set) var requests = 0
    /// APNs answered here without fault to find, or it held long enough.
    var isProven = false
    /// Answers 500 in a row.
    var serverErrors = 0

    let loop: EventLoop
    let settings: PoolSettings
    unowned let source: any PushSource
    weak var owner: (any ConnectionOwner)?
    unowned let credential: any CredentialSource
    let socket: SecureSocket
    let http: HTTP2Client
    private var pacer: Pacer
    private let writer: RequestWriter
    let flights: FlightTable
    /// The provider token with the time of its first use here; that is nil while it is unused.
    var token: ProviderToken?
    private var tokenSince: Int64?
    /// Some answer came: more than one request may be open.
    var isAnswered = false
    let startedAt: Instant
    private let retireAt: Instant
    var liveness: Liveness
    var drainStarted: Instant?
    var wasDrained: Bool { drainStarted != nil }
    /// Why it should be replaced, as found while events were taken.
    var wish: String?

    init(
        number: Int, to address: SocketAddress, host: String, context: TLSContext, loop: EventLoop,
        settings: PoolSettings, source: any PushSource, credential: any CredentialSource,
        ageFraction: Double, owner: any ConnectionOwner
    ) throws {
        self.number = number
        self.address = address
        self.loop = loop
        self.settings = settings
        self.source = source
        self.credential = credential
        self.owner = owner
        let now = loop.now
        socket = try SecureSocket(
            connectingTo: address, serverName: host, context: context, loop: loop,
            unsentLimit: settings.unsentLimit)
        do {
            http = try HTTP2Client(streamLimit: settings.streamLimit)
        } catch {
            socket.close()
            throw error
        }
        // Armed before the connection is up, so that no first burst escapes it.
        pacer = Pacer(limit: settings.ratePerConnection, now: now)
        writer = RequestWriter(authority: host)
        flights = FlightTable(capacity: settings.streamLimit)
        startedAt = now
        liveness = Liveness(now: now)
        retireAt = now + Int64(Double(settings.maximumAge) * (0.9 + 0.1 * ageFraction))
        socket.owner = self
    }

    /// Changes the limit of requests per second from now on; nil for none.
    func setRate(_ limit: Int?) { pacer.setLimit(limit, now: loop.now) }

    // MARK: The socket

    func socketEstablished() {
        state = .open
        liveness = Liveness(now: loop.now)
        token = credential.tokenForNewConnection(nowSeconds: WallClock.milliseconds() / 1000)
        writer.setToken(token)
        owner?.connectionOpened(self)
        turn()
    }

    func socketReceived() {
        guard state != .closed else { return }
        liveness.received(now: loop.now)
        do {
            try http.receive(socket.plaintext)
        } catch {
            takeEvents()
            close(.broken("HTTP/2: \(error)"))
            return
        }
        turn()
    }

    func socketClosed(_ cause: SocketFailure?) {
        // Closing without a word is in order once there is nothing more to answer.
        let isOrderly = state == .draining && flights.count == 0
        end(isOrderly ? nil : cause ?? (flights.count == 0 ? nil : APNsConnection.cutOff))
    }
    private static let cutOff = SocketFailure.broken("the peer closed it with requests unanswered")

    // MARK: Sending

    /// One turn: sends what may be sent and looks after deadlines.
    func tick(_ now: Instant) {
        switch state {
        case .closed: return
        case .connecting:
            if now - startedAt > settings.connectTimeout {
                let seconds = settings.connectTimeout / 1_000_000_000
                close(.connect("no connection to \(address) within \(seconds) s"))
            }
            return
        case .open:
            if now >= retireAt {
                wish = "it reached its maximum age"
            } else if http.idsExhausted {
                wish = "its stream ids are used up"
            } else if !isProven, now - startedAt >= settings.provenAge {
                noteProof()
            }
            // Deadlines first: who is frozen for long gives up before it sends again.
            checkDeadlines(now)
            if wish == nil { send() }
        case .draining:
            checkDeadlines(now)
            if let drainStarted, now - drainStarted > settings.drainTimeout {
                close(.broken("its last answers did not come in time"), unknown: "DrainTimeout")
                return
            }
        }
        turn()
        checkLiveness(now)
    }

    private func send() {
        guard socket.backlog < settings.backlogLimit else { return }
        var room = http.capacity
        if !isAnswered { room = min(room, http.openStreams == 0 ? 1 : 0) }
        var window = http.sendWindow
        guard room > 0, window > 0 else { return }
        renewToken()
        // The time now, not that of the loop's turn: other connections may have taken a while.
        let now = Instant.now()
        let granted = pacer.take(upTo: room, now: now)
        var used = 0
        while used < granted, window > 0, let push = source.nextPush(now: now) {
            guard let flight = flights.add(push.template, tag: push.tag, at: now) else {
                preconditionFailure("more requests than the connection's stream limit")
            }
            let stream = writer.write(push) { fields, body in
                http.submit(fields: fields, body: body, tag: UInt64(flight))
            }
            guard let stream else {
                // The session takes no more: it was never written.
                flights.remove(flight)
                source.pushEnded(tag: push.tag, .notProcessed, latency: 0, now: now)
                break
            }
            flights.setStream(stream, of: flight)
            window -= push.template.payload.count
            used += 1
        }
        pacer.giveBack(granted - used)
        guard used > 0 else { return }
        requests += used
        liveness.lastSent = now
        flush()
        pacer.written(at: Instant.now())
    }

    /// Sends what the session has to say, takes its events and does what they asked for.
    private func turn() {
        flush()
        takeEvents()
        guard state != .closed else { return }
        if let wish {
            self.wish = nil
            drain(wish)
        }
        if state == .draining, flights.count == 0 {
            closeInOrder()
        } else if state != .closed, http.isFinished {
            close(.broken("the HTTP/2 session ended"))
        }
    }

    func flush() {
        guard state != .closed else { return }
        do {
            try http.flush()
        } catch {
            takeEvents()
            close(.broken("HTTP/2: \(error)"))
            return
        }
        socket.send(http.output)
    }

    func takeEvents() { http.takeEvents { handle($0) } }

    /// Changes the provider token where its age asks for it.
    private func renewToken() {
        guard let held = token else { return }
        let now = WallClock.milliseconds() / 1000
        guard let since = tokenSince else {
            // The connection was idle until now: it begins with a token that lasts.
            if !ProviderTokenPolicy.mayAdopt(age: held.age(at: now)) {
                token = credential.tokenForNewConnection(nowSeconds: now)
                writer.setToken(token)
            }
            tokenSince = now
            return
        }
        guard now - since >= ProviderTokenPolicy.changeInterval,
            let fresh = credential.replacement(for: held, changedAt: since, nowSeconds: now)
        else { return }
        token = fresh
        tokenSince = now
        writer.setToken(fresh)
    }
}
