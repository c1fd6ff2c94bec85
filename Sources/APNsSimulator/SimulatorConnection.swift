internal import Base
internal import Crypto
internal import HTTP2
internal import Transport

/// One connection of a simulator.
///
/// Confined to the thread of its loop.
final class SimulatorConnection: SecureSocketOwner {
    /// Streams a client may have open before its first good provider token, and after it.
    private static let streamsAtFirst = 1
    private static let streamsLater = 1000

    private let socket: SecureSocket
    private unowned let owner: SimulatorLoop
    private let shared: SimulatorShared
    private let isFast: Bool
    private var session: HTTP2Server?
    private var number = 0
    private var tokens = ConnectionTokens()
    private var rate: RateRule
    private var isAuthenticated = false
    private var isTouched = false

    init(socket: SecureSocket, owner: SimulatorLoop) {
        self.socket = socket
        self.owner = owner
        shared = owner.shared
        isFast = shared.configuration.mode == .fast
        rate = RateRule(limit: shared.configuration.rateLimit)
    }

    func socketEstablished() {
        number = shared.nextConnection()
        var settings = HTTP2Server.Settings()
        settings.maxConcurrentStreams =
            isFast ? SimulatorConnection.streamsLater : SimulatorConnection.streamsAtFirst
        do {
            session = try HTTP2Server(settings: settings, keepsRequests: !isFast)
            flush()
        } catch {
            end()
        }
    }

    func socketReceived() {
        guard let session else { return }
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
        session = nil
        owner.remove(self)
    }

    /// Gives an answer that waited; true the first time since the last `flush`.
    func give(_ answer: Answer, id: [UInt8], on stream: Int32) -> Bool {
        guard let session else { return false }
        respond(session, stream, answer, id)
        defer { isTouched = true }
        return !isTouched
    }

    /// Sends what the session has to say.
    func flush() {
        isTouched = false
        guard let session else { return }
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
        if let session {
            session.goAway(lastStream: session.lastStream, code: HTTP2ErrorCode.noError, debug: [])
            try? session.flush()
            socket.send(session.output)
        }
        session = nil
        socket.close()
    }

    private func end() {
        session = nil
        socket.close()
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
                owner.delay(.accepted, id: [], on: stream, of: self, from: now)
            } else {
                session.respondOK(stream)
            }
        }
        guard count > 0 else { return }
        shared.counts.withLock {
            $0.requests += count
            $0.accepted += count
        }
    }

    private func serveStrict(_ session: HTTP2Server) {
        let now = Instant.now()
        let seconds = WallClock.milliseconds() / 1000
        let late = owner.lateness(at: now)
        session.takeEvents { event in
            guard case .request(let stream, let request?) = event else { return }
            serve(request, on: stream, of: session, now: now, seconds: seconds, late: late)
            session.recycle(request)
        }
    }

    private func serve(
        _ received: HTTP2Request, on stream: Int32, of session: HTTP2Server, now: Instant,
        seconds: Int64, late: Int64
    ) {
        var request = PushRequest(
            memory: received.memory, body: received.body, bodyCount: received.bodyCount)
        for field in received.fields { request.note(name: field.name, value: field.value) }
        let token = request.token.map { request.memory[$0] } ?? []
        let answer = self.answer(to: request, token: token, now: now, seconds: seconds, late: late)
        var id = request.id.map { Array(request.memory[$0]) } ?? []
        if !RequestCheck.isUUID(id[...]) { id = SimulatorConnection.newID() }
        shared.counts.withLock { $0.add(answer) }
        shared.recorder?.add(
            now, connection: number, stream: stream, token: token, id: id[...],
            status: answer.status)
        if shared.configuration.latency > 0 {
            owner.delay(answer, id: id, on: stream, of: self, from: now)
        } else {
            respond(session, stream, answer, id)
        }
    }

    private func answer(
        to request: PushRequest, token: ArraySlice<UInt8>, now: Instant, seconds: Int64, late: Int64
    ) -> Answer {
        let fault = shared.check.fault(in: request) { authorization in
            let fault = tokens.fault(in: authorization, check: &owner.tokenCheck, now: seconds)
            if fault == nil, !isAuthenticated {
                isAuthenticated = true
                try? session?.setMaxConcurrentStreams(SimulatorConnection.streamsLater)
            }
            return fault
        }
        if let fault { return .refused(fault, timestamp: nil) }
        let answer = shared.answer(forToken: token)
        if case .refused(let fault, _) = answer, fault.status != 429, fault.status != 503 {
            return answer
        }
        guard rate.admits(at: now, late: late) else {
            return .refused(.tooManyRequests, timestamp: nil)
        }
        return answer
    }

    private func respond(_ session: HTTP2Server, _ stream: Int32, _ answer: Answer, _ id: [UInt8]) {
        switch answer {
        case .silence: return
        case .accepted where isFast: session.respondOK(stream)
        case .accepted: session.respond(stream, status: 200, fields: [(Text.id, id)])
        case .refused(_, let timestamp):
            var fields = [(name: Text.contentType, value: Text.json), (Text.id, id)]
            if let timestamp { fields.append((Text.unless, Array(String(timestamp).utf8))) }
            session.respond(stream, status: answer.status, fields: fields, body: answer.body)
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

    private enum Text {
        static let id = Array("apns-id".utf8)
        static let contentType = Array("content-type".utf8)
        static let json = Array("application/json".utf8)
        static let unless = Array("apns-unless-timestamp".utf8)
    }
}
