internal import Base
internal import Crypto
internal import HTTP2
internal import Transport

/// One connection of a simulator.
///
/// Confined to the thread of its loop. What a script has it do is in `ConnectionDeeds.swift`.
final class SimulatorConnection: SecureSocketOwner {
    let socket: SecureSocket
    unowned let owner: SimulatorLoop
    let shared: SimulatorShared
    private let isFast: Bool
    /// Nil before the handshake and after the end.
    var session: HTTP2Server?
    private(set) var number = 0
    private var tokens = ConnectionTokens()
    private var rate: RateRule
    private var score = ErrorScore()
    /// Requests so far.
    var requests = 0
    /// Streams above it were said not to be processed.
    var goAwayLast = Int32.max
    /// Swallows everything.
    var isFrozen = false
    private var isAuthenticated = false
    private var isTouched = false

    /// Whether it still speaks HTTP/2.
    var isOpen: Bool { session != nil && !isFrozen }

    init(socket: SecureSocket, owner: SimulatorLoop) {
        self.socket = socket
        self.owner = owner
        shared = owner.shared
        isFast = shared.configuration.mode == .fast
        rate = owner.rateRule
    }

    func socketEstablished() {
        number = shared.nextConnection()
        shared.reports?.withLock { $0.open(number) }
        var settings = HTTP2Server.Settings()
        settings.maxConcurrentStreams =
            isFast ? owner.settings.streamsLater : owner.settings.streamsAtFirst
        settings.controlsWindow = shared.configuration.isScriptable
        settings.initialWindowSize = owner.settings.initialWindow
        do {
            let session = try HTTP2Server(settings: settings, keepsRequests: !isFast)
            session.givesWindow = owner.settings.updatesWindow
            self.session = session
            flush()
        } catch {
            end()
        }
    }

    func socketReceived() {
        guard let session, !isFrozen else {
            socket.plaintext.removeAll()
            return
        }
        do {
            try session.receive(socket.plaintext)
        } catch {
            flush()  // the GOAWAY that tells the peer why
            end()
            return
        }
        if isFast { serveFast(session) } else { serveStrict(session) }
        flush()
    }

    func socketClosed(_ cause: SocketFailure?) {
        if session == nil { shared.counts.withLock { $0.failedHandshakes += 1 } }
        left()
    }

    /// Gives an answer that waited; true the first time since the last `flush`.
    func give(_ reply: Reply) -> Bool {
        conclude(reply)
        guard session != nil else { return false }
        defer { isTouched = true }
        return !isTouched
    }

    /// Sends what the session has to say.
    func flush() {
        isTouched = false
        guard let session, !isFrozen else { return }
        do {
            try session.flush()
        } catch {
            end()
            return
        }
        socket.send(session.output)
        if session.isFinished { end() }
    }

    /// Says an orderly goodbye and closes.
    func goAway() {
        if let session, !isFrozen {
            session.goAway(lastStream: session.lastStream, code: HTTP2ErrorCode.noError, debug: [])
            try? session.flush()
            socket.send(session.output)
        }
        session = nil
        socket.close()
    }

    /// Takes over the rate of a new script; stream limits and windows are for new connections.
    func renewRate() { rate = owner.rateRule }

    func end() {
        socket.close()
        left()
    }

    /// Forgets the connection, whose socket is closed.
    func left() {
        if session != nil { shared.reports?.withLock { $0.close(number) } }
        session = nil
        owner.remove(self)
    }

    private func serveFast(_ session: HTTP2Server) {
        var count = 0
        let now = Instant.now()
        let waits = shared.configuration.latency > 0
        session.takeEvents { event in
            guard case .request(let stream, _) = event else { return }
            count += 1
            if waits {
                owner.delay(
                    Reply(moment: now, stream: stream, token: [], id: [], answer: .accepted),
                    of: self)
            } else {
                session.respondOK(stream)
            }
        }
        guard count > 0 else { return }
        shared.counts.withLock {
            $0.requests += count
            if !waits { $0.accepted += count }
        }
        shared.reports?.withLock { $0.add(count, to: number, at: now) }
    }

    private func serveStrict(_ session: HTTP2Server) {
        let now = Instant.now()
        let seconds = WallClock.milliseconds() / 1000
        let late = owner.lateness(at: now)
        session.takeEvents { event in
            switch event {
            case .request(let stream, let request?):
                serve(request, on: stream, now: now, seconds: seconds, late: late)
                session.recycle(request)
            case .excessStream(let acknowledged):
                shared.counts.withLock {
                    if acknowledged { $0.limitViolations += 1 } else { $0.refusedStreams += 1 }
                }
            default: break
            }
        }
    }

    private func serve(
        _ received: HTTP2Request, on stream: Int32, now: Instant, seconds: Int64, late: Int64
    ) {
        var request = PushRequest(
            memory: received.memory, body: received.body, bodyCount: received.bodyCount)
        for field in received.fields { request.note(name: field.name, value: field.value) }
        let token = request.token.map { request.memory[$0] } ?? []
        var id = request.id.map { Array(request.memory[$0]) } ?? []
        if !RequestCheck.isUUID(id[...]) { id = SimulatorConnection.newID() }
        requests += 1
        shared.counts.withLock { $0.requests += 1 }
        shared.reports?.withLock { $0.add(1, to: number, at: now) }
        func reply(_ answer: Answer, _ verdict: Verdict? = nil) -> Reply {
            Reply(
                moment: now, stream: stream, token: token, id: id, answer: answer, verdict: verdict)
        }
        guard isOpen else {  // a deed for an earlier request of the same turn ended it
            conclude(reply(.silence))
            return
        }
        let fault = self.fault(in: request, seconds: seconds)
        let judge = { self.answer(fault, token: token, now: now, late: late) }
        guard let run = owner.run else {
            schedule(reply(judge()), run: nil)
            return
        }
        let arrival = ScriptArrival(
            token: token, topic: request.topic.map { request.memory[$0] } ?? [],
            connection: number, request: requests, time: now - run.begunAt)
        guard let deed = run.deed(for: arrival) else {
            schedule(reply(judge()), run: run)
            return
        }
        perform(deed, for: reply, judge: judge, run: run)
    }

    /// Gives an answer now or after the latency, and `more` nanoseconds later than that.
    func schedule(_ reply: Reply, run: ScriptRun?, more: Int64 = 0) {
        let own = run?.latency()
        guard own != nil || more > 0 || shared.configuration.latency > 0 else {
            conclude(reply)
            return
        }
        var kept = reply
        kept.keep()
        if own != nil || more > 0 {
            owner.delay(
                kept, by: (own ?? shared.configuration.latency) + more, of: self)
        } else {
            owner.delay(kept, of: self)
        }
    }

    /// What is wrong with a request; the first good provider token raises the stream limit.
    private func fault(in request: PushRequest, seconds: Int64) -> Fault? {
        shared.check.fault(in: request) { authorization in
            let fault = tokens.fault(in: authorization, check: &owner.tokenCheck, now: seconds)
            if fault == nil, !isAuthenticated {
                isAuthenticated = true
                try? session?.setMaxConcurrentStreams(owner.settings.streamsLater)
            }
            return fault
        }
    }

    private func answer(
        _ fault: Fault?, token: ArraySlice<UInt8>, now: Instant, late: Int64
    ) -> Answer {
        if let fault { return .refused(fault, timestamp: nil) }
        let answer = shared.answer(forToken: token)
        if case .refused(let fault, _) = answer, fault.status != 429, fault.status != 503 {
            return answer
        }
        guard rate.admits(at: now, late: late), owner.run?.admits(token, at: now) ?? true else {
            return .refused(.tooManyRequests, timestamp: nil)
        }
        return answer
    }

    /// Answers a request if that is still possible, records it and counts it.
    func conclude(_ reply: Reply) {
        var reply = reply
        if reply.stream > goAwayLast { reply.verdict = .unprocessed }
        var isAnswered = false
        if reply.answer != .silence, isOpen, let session, session.isOpen(reply.stream) {
            respond(session, reply)
            isAnswered = true
        }
        shared.counts.withLock {
            $0.add(reply.answer, reply.verdict, isAnswered: isAnswered)
        }
        shared.recorder?.add(
            reply.moment, connection: number, stream: reply.stream, token: reply.token,
            id: reply.id[...], status: isAnswered ? reply.answer.status : 0,
            verdict: reply.verdict)
        if isAnswered, let rule = owner.settings.errorScore { note(reply.answer, rule) }
    }

    private func note(_ answer: Answer, _ rule: ErrorScore.Rule) {
        switch score.note(status: answer.status, reason: answer.reason, rule: rule) {
        case .nothing: break
        case .lower: try? session?.setMaxConcurrentStreams(1)
        case .restore: try? session?.setMaxConcurrentStreams(owner.settings.streamsLater)
        case .goAway:
            guard goAwayLast == Int32.max, let session else { return }
            var goAway = Deed.GoAway()
            goAway.debug = Deed.GoAway.debug(reason: rule.reason)
            say(goAway, at: session.lastStream)
        }
    }

    private func respond(_ session: HTTP2Server, _ reply: Reply) {
        let settings = owner.settings
        var fields: [(name: [UInt8], value: [UInt8])] = []
        if let skew = settings.dateSkew, !reply.answer.hasDate {
            fields.append((Text.date, Answer.date(skew: skew)))
        }
        switch reply.answer {
        case .silence: return
        case .accepted where isFast: session.respondOK(reply.stream)
        case .accepted:
            session.respond(reply.stream, status: 200, fields: fields + [(Text.id, reply.id)])
        case .refused(_, let timestamp):
            fields += [(Text.contentType, Text.json), (Text.id, reply.id)]
            if let timestamp, settings.emitsUnlessTimestamp {
                fields.append((Text.unless, Array(String(timestamp).utf8)))
            }
            session.respond(
                reply.stream, status: reply.answer.status, fields: fields,
                body: reply.answer.body(now: 0))
        case .scripted(let answer):
            let now = WallClock.milliseconds()
            let id = answer.id == .other ? SimulatorConnection.newID() : reply.id
            let own = answer.fields(
                id: id, now: now, emitsUnlessTimestamp: settings.emitsUnlessTimestamp)
            session.respond(
                reply.stream, status: answer.status, fields: fields + own,
                body: answer.body(now: now), frames: answer.frames)
        }
    }

    /// A random UUID in upper case, as APNs generates them.
    private static func newID() -> [UInt8] {
        var bytes = SecureRandom.bytes(16)
        bytes[6] = bytes[6] & 0x0F | 0x40
        bytes[8] = bytes[8] & 0x3F | 0x80
        let digits = Array(Hex.encode(bytes).uppercased().utf8)
        return Array(
            [digits[0..<8], digits[8..<12], digits[12..<16], digits[16..<20], digits[20..<32]]
                .joined(separator: [0x2D]))
    }
}

/// Names and values of fields of answers.
enum Text {
    static let id = Array("apns-id".utf8)
    static let contentType = Array("content-type".utf8)
    static let json = Array("application/json".utf8)
    static let plain = Array("text/plain".utf8)
    static let unless = Array("apns-unless-timestamp".utf8)
    static let retryAfter = Array("retry-after".utf8)
    static let date = Array("date".utf8)
}
