import Base
import EventLoop
import HTTP2
import TLS
import Transport

/// A small server that misbehaves by script: the faults that the simulator does not show.
final class FaultServer: @unchecked Sendable {
    /// What it does about a request.
    enum Deed {
        case answer(Int, String = "")
        case answerLater(milliseconds: Int)
        /// Answers everything that is open.
        case answerAll
        case reset(UInt32)
        /// Streams above `last` were not processed.
        case goAway(last: Int32, debug: String = "")
        case limit(Int)
        /// Closes the socket without a word of HTTP/2.
        case hangUp
        /// Neither reads nor writes any more.
        case freeze
    }
    /// The connection from 1, its request from 0, and how many are open.
    typealias Script = @Sendable (_ connection: Int, _ request: Int, _ open: Int) -> [Deed]

    struct Arrival: Sendable {
        let at: Instant
        let connection: Int
        let path: String
        let authorization: String
        /// Requests open on the connection, this one included.
        let open: Int
        /// The stream limit that the peer had acknowledged.
        let limit: Int
    }

    let port: Int
    private let loop: EventLoop
    private let context: TLSContext
    private let script: Script
    private let initialLimit: Int
    private var listener: Listener?
    private var sessions: [Session] = []
    private var thread: Thread?
    private let record = Lock<(arrivals: [Arrival], connections: Int)>(([], 0))

    init(
        files: (certificate: String, key: String), limit: Int = 100, script: @escaping Script
    ) throws {
        loop = try EventLoop(name: "fault server")
        context = try TLSContext(serverCertificate: files.certificate, key: files.key)
        self.script = script
        initialLimit = limit
        let listener = try Listener(host: "127.0.0.1", port: 0, loop: loop)
        port = listener.port
        self.listener = listener
        loop.submit { self.listener?.start { [weak self] in self?.accept($0) } }
        thread = loop.start()
    }

    /// Ends the thread.
    func stop() {
        loop.submit {
            self.listener?.stop()
            for session in self.sessions { session.socket.close() }
            self.sessions = []
        }
        loop.stop()
        thread?.join()
    }

    var arrivals: [Arrival] { record.withLock { $0.arrivals } }
    var connections: Int { record.withLock { $0.connections } }

    private func accept(_ descriptor: Int32) {
        guard let socket = try? SecureSocket(accepted: descriptor, context: context, loop: loop)
        else { return }
        let session = Session(socket: socket, server: self, limit: initialLimit)
        socket.owner = session
        sessions.append(session)
    }

    private final class Session: SecureSocketOwner, @unchecked Sendable {
        let socket: SecureSocket
        private unowned let server: FaultServer
        private var http: HTTP2Server?
        private var number = 0
        private var requests = 0
        private var open: [Int32] = []
        private var limits: [Int]
        private var limit = 0
        private var isFrozen = false

        init(socket: SecureSocket, server: FaultServer, limit: Int) {
            self.socket = socket
            self.server = server
            limits = [limit]
        }

        func socketEstablished() {
            number = server.record.withLock {
                $0.connections += 1
                return $0.connections
            }
            var settings = HTTP2Server.Settings()
            settings.maxConcurrentStreams = limits[0]
            http = try? HTTP2Server(settings: settings, keepsRequests: true)
            flush()
        }

        func socketReceived() {
            guard !isFrozen, let http else { return }
            guard (try? http.receive(socket.plaintext)) != nil else {
                socket.close()
                return
            }
            http.takeEvents { event in
                switch event {
                case .request(let stream, let request?): take(stream, request)
                case .settingsAcknowledged: if !limits.isEmpty { limit = limits.removeFirst() }
                case .cancelled(let stream, _): open.removeAll { $0 == stream }
                default: break
                }
            }
            flush()
        }

        func socketClosed(_ cause: SocketFailure?) { http = nil }

        private func take(_ stream: Int32, _ request: HTTP2Request) {
            open.append(stream)
            var fields: [String: String] = [:]
            for field in request.fields {
                fields[String(decoding: request.memory[field.name], as: UTF8.self)] =
                    String(decoding: request.memory[field.value], as: UTF8.self)
            }
            let arrival = Arrival(
                at: Instant.now(), connection: number, path: fields[":path"] ?? "",
                authorization: fields["authorization"] ?? "", open: open.count, limit: limit)
            server.record.withLock { $0.arrivals.append(arrival) }
            for deed in server.script(number, requests, open.count) { perform(deed, stream) }
            requests += 1
        }

        private func perform(_ deed: Deed, _ stream: Int32) {
            switch deed {
            case .answer(let status, let body):
                close(stream)
                http?.respond(stream, status: status, body: Array(body.utf8))
            case .answerLater(let milliseconds):
                server.loop.schedule(after: Nanoseconds.milliseconds(milliseconds)) {
                    guard self.open.contains(stream) else { return }
                    self.perform(.answer(200), stream)
                    self.flush()
                }
            case .answerAll: for stream in open { perform(.answer(200), stream) }
            case .reset(let code):
                close(stream)
                http?.reset(stream, code: code)
            case .goAway(let last, let debug):
                http?.goAway(
                    lastStream: last, code: HTTP2ErrorCode.noError, debug: Array(debug.utf8))
                open.removeAll { $0 > last }
            case .limit(let limit):
                limits.append(limit)
                try? http?.setMaxConcurrentStreams(limit)
            case .hangUp:
                http = nil
                socket.close()
            case .freeze: isFrozen = true
            }
        }

        private func close(_ stream: Int32) { open.removeAll { $0 == stream } }

        private func flush() {
            guard !isFrozen, let http, (try? http.flush()) != nil else { return }
            socket.send(http.output)
        }
    }
}
