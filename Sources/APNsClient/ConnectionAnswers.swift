internal import APNs
internal import Base
internal import EventLoop
internal import HTTP2
internal import Transport

extension APNsConnection {
    // MARK: Answers

    /// Takes one event of the session; changes of state are only wished for.
    func handle(_ event: HTTP2ClientEvent) {
        switch event {
        case .ended(let result): ended(result)
        case .goAway(_, let code, let debug):
            // APNs may say why, in the form of an answer's body.
            let reason = Response(status: 400, body: debug, sentAt: 0).reason
            let verdict = reason?.known.map { Verdict.of(status: 400, reason: Reason($0)) }
            if case .stop(let cause)? = verdict {
                isProven = false  // replacing it at once would not help
                wish = "GOAWAY \(reason?.text ?? ""): \(cause.advice)"
            } else {
                let text = reason?.text ?? String(decoding: debug.prefix(200), as: UTF8.self)
                wish = "GOAWAY code \(code)\(text.isEmpty ? "" : ", \(text)")"
            }
        case .settings, .pong: break
        }
    }

    private func ended(_ result: StreamResult) {
        let place = Int(result.tag)
        let flight = flights[place]
        flights.remove(place)
        let now = loop.now
        let latency = max(0, now - flight.startedAt)
        if result.status == 200 {
            serverErrors = 0
            if !isProven { noteProof() }
            isAnswered = true
            source.pushEnded(tag: flight.tag, .accepted, latency: latency, now: now)
            return
        }
        guard result.status != 0 else {
            let outcome: PushOutcome =
                if result.errorCode == HTTP2ErrorCode.refusedStream {
                    // Refused, or above GOAWAY's last stream.
                    .notProcessed
                } else {
                    .unknown(flight.timedOut ? "Timeout" : "StreamReset\(result.errorCode)")
                }
            source.pushEnded(tag: flight.tag, outcome, latency: latency, now: now)
            return
        }
        isAnswered = true
        refused(result, flight.tag, latency, now)
    }

    private func refused(_ result: StreamResult, _ tag: UInt64, _ latency: Int64, _ now: Instant) {
        let wall = WallClock.milliseconds()
        let response = Response(
            status: result.status, body: result.detail?.body ?? [],
            unlessTimestamp: result.detail?.field(HeaderName.unlessTimestamp),
            sentAt: wall - latency / 1_000_000)
        let wait = result.detail?.field(HeaderName.retryAfter)
            .flatMap { RetryAfter.seconds($0, now: wall) }
        let advice = response.reaction
        switch advice.minting {
        case .keep: break
        case .renew:
            if let token { _ = credential.refused(token, nowSeconds: wall / 1000) }
        case .hold: credential.hold(nowSeconds: wall / 1000)
        }
        serverErrors = result.status == 500 ? serverErrors + 1 : 0
        switch advice.connection {
        case .keep:
            if !isProven { noteProof() }
            if serverErrors >= settings.serverErrorsInRow,
                owner?.isAnotherWell(than: self) ?? false
            {
                wish = "it answered 500 \(serverErrors) times in a row"
            }
        // To close at once would make unknown what is about to be answered: nothing new is sent.
        case .drain, .close:
            if advice.minting != .keep { isProven = false }
            wish = "an answer \(response.label)"
        }
        source.pushEnded(
            tag: tag, .answered(response, retryAfterSeconds: wait), latency: latency, now: now)
    }

    func noteProof() {
        isProven = true
        owner?.connectionProven(self)
    }

    // MARK: Deadlines

    func checkDeadlines(_ now: Instant) {
        while let place = flights.first,
            now - flights[place].startedAt >= settings.requestTimeout
        {
            flights.giveUp(place)
            // Until it is reset the stream counts against the server's limit.
            http.cancel(flights[place].stream)
        }
    }

    func checkLiveness(_ now: Instant) {
        guard state == .open || state == .draining else { return }
        let oldest = flights.first.map { flights[$0].startedAt }
        switch liveness.decide(now: now, oldest: oldest, settings: settings) {
        case .nothing: break
        case .ping:
            http.ping()
            flush()
        case .dead:
            let seconds = settings.pingTimeout / 1_000_000_000
            close(.broken("no answer to PING within \(seconds) s"), unknown: "PingUnanswered")
        }
    }

    // MARK: The end

    /// Opens nothing new and ends when the last answer is in.
    ///
    /// Not to be called while events are taken.
    func drain(_ why: String) {
        switch state {
        case .closed, .draining: return
        case .connecting:
            close(nil)
        case .open:
            state = .draining
            drainStarted = loop.now
            owner?.connectionDraining(self, why)
            if flights.count == 0 { closeInOrder() }
        }
    }

    /// Says GOAWAY and closes.
    func closeInOrder(unknown: String = "ConnectionLost") {
        guard state != .closed else { return }
        if state != .connecting {
            http.goAway()
            flush()
        }
        close(nil, unknown: unknown)
    }

    /// Ends now; what is open and unanswered is unknown.
    func close(_ why: SocketFailure?, unknown: String = "ConnectionLost") {
        guard state != .closed else { return }
        socket.close()
        end(why, unknown: unknown)
    }

    func end(_ why: SocketFailure?, unknown: String = "ConnectionLost") {
        guard state != .closed else { return }
        takeEvents()  // answers and refusals that came before the end
        state = .closed
        let now = loop.now
        flights.forEach { place in
            let flight = flights[place]
            flights.remove(place)
            source.pushEnded(
                tag: flight.tag, .unknown(flight.timedOut ? "Timeout" : unknown),
                latency: max(0, now - flight.startedAt), now: now)
        }
        owner?.connectionClosed(self, why)
    }
}
