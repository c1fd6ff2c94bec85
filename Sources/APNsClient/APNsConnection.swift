internal import APNs
internal import Base
internal import EventLoop
internal import HTTP2
internal import TLS
internal import Transport

/// What a pool hears of its connections.
protocol ConnectionOwner: AnyObject {
    func connectionOpened(_ connection: APNsConnection)
    /// It takes nothing new any more and should be replaced.
    func connectionDraining(_ connection: APNsConnection, _ why: String)
    /// It is gone; all its requests were reported.
    func connectionClosed(_ connection: APNsConnection, _ why: SocketFailure?)
}

/// One connection to APNs. Loop only.
///
/// 1. Connects, then sends one request alone until the first answer (token-authenticated
///    connections start with one stream; "Sending notification requests to APNs").
/// 2. Takes as many requests per tick as pacing, the server's stream limit and the kernel allow.
/// 3. Reports each request exactly once: answered, not processed, or unknown.
/// 4. Notices silence (request deadline, PING) and ends the connection for it.
/// 5. Drains on GOAWAY, on advice of an answer, at its maximum age, when stream ids run out.
final class APNsConnection: SecureSocketOwner {
    enum State { case connecting, open, draining, closed }

    let number: Int
    let address: SocketAddress
    private(set) var state = State.connecting
    var inFlight: Int { http.openStreams }
    private(set) var requests = 0

    private let loop: EventLoop
    private let settings: PoolSettings
    private unowned let source: any PushSource
    private weak var owner: (any ConnectionOwner)?
    private let credential: any CredentialSource
    private let socket: SecureSocket
    private let http: HTTP2Client
    private var pacer: Pacer
    private let writer: RequestWriter
    private var token: ProviderToken?
    private var tokenSince: Int64 = 0
    private var flights: FlightTable
    private var answered = false
    private var openedAt: Instant
    private let retireAt: Instant
    private var lastReceived: Instant
    private var pingSent: Instant?
    private var drainStarted: Instant?

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
        socket = try SecureSocket(
            connectingTo: address, serverName: host, context: context, loop: loop)
        http = try HTTP2Client(streamLimit: settings.streamLimit)
        pacer = Pacer(limit: settings.ratePerConnection, now: loop.now)
        writer = RequestWriter(authority: host)
        flights = FlightTable(limit: settings.streamLimit)
        openedAt = loop.now
        lastReceived = loop.now
        retireAt = loop.now + Int64(Double(settings.maximumAge) * (0.9 + 0.1 * ageFraction))
        socket.owner = self
    }

    // MARK: The socket

    func socketEstablished() {
        state = .open
        openedAt = loop.now
        lastReceived = loop.now
        tokenSince = WallClock.milliseconds() / 1000
        token = credential.tokenForNewConnection(nowSeconds: tokenSince)
        writer.setToken(token)
        owner?.connectionOpened(self)
        flush()
    }

    func socketReceived() {
        lastReceived = loop.now
        pingSent = nil
        do {
            try http.receive(socket.plaintext)
        } catch {
            close(.broken("HTTP/2: \(error)"))
            return
        }
        http.takeEvents { handle($0) }
        guard state != .closed else { return }
        flush()
        if state == .draining, http.openStreams == 0 { close(nil) }
    }

    func socketClosed(_ cause: SocketFailure?) { end(cause) }

    // MARK: Sending

    /// One turn: sends what may be sent and looks after deadlines.
    func tick(_ now: Instant) {
        switch state {
        case .closed: return
        case .connecting:
            if now - openedAt > settings.connectTimeout {
                close(.connect("no connection to \(address) within \(settings.connectTimeout / 1_000_000_000) s"))
            }
            return
        case .open:
            if now >= retireAt { drain("its maximum age") }
            else if http.idsExhausted { drain("its stream ids are used up") }
            else { send(now) }
        case .draining:
            if let drainStarted, now - drainStarted > settings.drainTimeout {
                close(.broken("answers were still missing \(settings.drainTimeout / 1_000_000_000) s after it was to be replaced"))
                return
            }
        }
        checkDeadlines(now)
        checkPing(now)
        flush()
    }

    private func send(_ now: Instant) {
        guard socket.backlog < settings.backlogLimit else { return }
        var room = http.capacity
        if !answered { room = min(room, http.openStreams == 0 ? 1 : 0) }
        guard room > 0 else { return }
        renewToken()
        let granted = pacer.take(upTo: room, now: now)
        var used = 0
        while used < granted, let push = source.nextPush(now: now) {
            let flight = flights.add(push.tag, push.template, now)
            let stream = writer.write(push) { fields, body in
                http.submit(fields: fields, body: body, tag: UInt64(flight))
            }
            guard let stream else {
                // The session takes no more: it was never written.
                let tag = flights.remove(flight).tag
                source.pushEnded(tag: tag, .notProcessed, latency: 0, now: now)
                break
            }
            flights.setStream(flight, stream)
            used += 1
        }
        requests += used
        pacer.giveBack(granted - used)
    }

    private func flush() {
        guard state != .closed else { return }
        do {
            try http.flush()
        } catch {
            close(.broken("HTTP/2: \(error)"))
            return
        }
        socket.send(http.output)
    }

    private func renewToken() {
        guard let held = token else { return }
        let now = WallClock.milliseconds() / 1000
        guard now - tokenSince >= ProviderTokenPolicy.changeInterval,
            let fresh = credential.replacement(for: held, changedAt: tokenSince, nowSeconds: now)
        else { return }
        token = fresh
        tokenSince = now
        writer.setToken(fresh)
    }

    // MARK: Answers

    private func handle(_ event: HTTP2ClientEvent) {
        guard state != .closed else { return }
        switch event {
        case .ended(let result): ended(result)
        case .goAway(_, let code, let debug):
            let text = String(decoding: debug.prefix(200), as: UTF8.self)
            drain("GOAWAY code \(code) \(text)")
        case .settings, .pong: break
        }
    }

    private func ended(_ result: StreamResult) {
        let flight = flights.remove(Int(result.tag))
        let now = loop.now
        let latency = now - flight.startedAt
        if result.status == 200 {
            answered = true
            source.pushEnded(tag: flight.tag, .accepted, latency: latency, now: now)
            return
        }
        guard result.status != 0 else {
            let outcome: PushOutcome =
                result.errorCode == HTTP2ErrorCode.refusedStream
                ? .notProcessed
                : .unknown(flight.timedOut ? "Timeout" : "StreamReset\(result.errorCode)")
            source.pushEnded(tag: flight.tag, outcome, latency: latency, now: now)
            return
        }
        answered = true
        let wall = WallClock.milliseconds()
        let response = Response(
            status: result.status, body: result.detail?.body ?? [],
            unlessTimestamp: result.detail?.field("apns-unless-timestamp"),
            sentAt: wall - latency / 1_000_000)
        let wait = result.detail?.field("retry-after").flatMap { RetryAfter.seconds($0, now: wall) }
        let advice = response.reaction
        if advice.minting == .renew, let token {
            _ = credential.refused(token, nowSeconds: wall / 1000)
        }
        source.pushEnded(
            tag: flight.tag, .answered(response, retryAfterSeconds: wait), latency: latency, now: now)
        switch advice.connection {
        case .keep: break
        case .drain: drain("an answer \(response.label)")
        // What is still open may be answered; nothing new is sent on it.
        case .close: drain("an answer \(response.label)")
        }
    }

    // MARK: Deadlines and the end

    private func checkDeadlines(_ now: Instant) {
        while let (flight, stream) = flights.oldestOverdue(now, settings.requestTimeout) {
            flights.markTimedOut(flight)
            // Until it is reset the stream counts against the server's limit.
            http.cancel(stream)
        }
    }

    private func checkPing(_ now: Instant) {
        if let pingSent {
            if now - pingSent > settings.pingTimeout {
                close(.broken("no answer to PING within \(settings.pingTimeout / 1_000_000_000) s"))
            }
            return
        }
        let silence = now - lastReceived
        let limit = http.openStreams > 0 ? settings.busyPing : settings.idlePing
        if silence >= limit {
            http.ping()
            pingSent = now
        }
    }

    /// Opens nothing new and ends when the last answer is in.
    func drain(_ why: String) {
        guard state == .open else { return }
        state = .draining
        drainStarted = loop.now
        owner?.connectionDraining(self, why)
        if http.openStreams == 0 {
            http.goAway()
            flush()
            close(nil)
        }
    }

    /// Ends now; what is open and unanswered is unknown.
    func close(_ why: SocketFailure?) {
        guard state != .closed else { return }
        socket.close()
        end(why)
    }

    private func end(_ why: SocketFailure?) {
        guard state != .closed else { return }
        let wasUp = state != .connecting
        state = .closed
        let now = loop.now
        // Requests that the session had refused before the end came.
        http.takeEvents { event in
            if case .ended(let result) = event { ended(result) }
        }
        flights.removeAll { flight in
            source.pushEnded(
                tag: flight.tag, wasUp ? .unknown("ConnectionLost") : .notProcessed,
                latency: now - flight.startedAt, now: now)
        }
        owner?.connectionClosed(self, why)
    }
}
