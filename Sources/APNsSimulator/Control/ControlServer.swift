internal import Base
internal import EventLoop

/// The control endpoint: HTTP/1.1 on 127.0.0.1, one request for each connection, on a thread of its
/// own.
///
/// There is no password: whoever may open sockets on this machine may use it. Everything but
/// `start` and `shutDown` is for its loop only.
final class ControlServer: @unchecked Sendable {
    /// Connections at a time; more are closed at once.
    private static let connectionLimit = 16
    /// The longest a request may take, and the peer's end after the answer, in nanoseconds.
    private static let patience: Int64 = 10_000_000_000

    let port: Int
    private let loop: EventLoop
    private let desk: ControlDesk
    private var listener: Listener?
    private var connections: [ObjectIdentifier: Connection] = [:]

    init(port: Int, desk: ControlDesk) throws {
        self.desk = desk
        loop = try EventLoop(name: "simulator control")
        let listener = try Listener(host: "127.0.0.1", port: port, loop: loop)
        self.port = listener.port
        self.listener = listener
    }

    /// Any thread.
    func start() -> Thread {
        loop.submit { self.listener?.start { [weak self] in self?.accept($0) } }
        return loop.start()
    }

    /// Any thread.
    func shutDown() {
        loop.submit {
            self.listener?.stop()
            self.listener = nil
            for connection in self.connections.values { connection.close() }
            self.loop.stop()
        }
    }

    private func accept(_ descriptor: Int32) {
        guard connections.count < Self.connectionLimit else {
            Socket.close(descriptor)
            return
        }
        let connection = Connection(descriptor, of: self)
        connections[ObjectIdentifier(connection)] = connection
        loop.schedule(after: Self.patience) { [weak connection] in connection?.timeOut() }
    }

    private final class Connection: EventHandler, @unchecked Sendable {
        private enum Stage { case reading, waiting, writing, ending, closed }

        private let descriptor: Int32
        private unowned let server: ControlServer
        private let input = ByteQueue()
        private let output = ByteQueue()
        private var stage = Stage.reading
        private var hasContinued = false

        init(_ descriptor: Int32, of server: ControlServer) {
            self.descriptor = descriptor
            self.server = server
            server.loop.watch(descriptor, self)
        }

        func ready(_ readiness: Readiness) {
            do {
                if readiness.contains(.writable), stage == .writing { try write() }
                guard stage != .closed else { return }
                if let count = try Socket.receive(descriptor, into: input, limit: 64 * 1024) {
                    if count == 0 {
                        // The peer has ended; an answer that is under way is still written.
                        if stage == .writing || stage == .waiting {
                            server.loop.setWriting(
                                descriptor, stage == .writing, reading: false)
                        } else {
                            close()
                        }
                        return
                    }
                }
                guard stage == .reading else {
                    input.removeAll()
                    return
                }
                try read()
            } catch {
                close()
            }
        }

        func timeOut() {
            if stage == .reading { answer(.fault(408, "the request did not come to its end")) }
            if stage != .writing { close() }
        }

        func close() {
            guard stage != .closed else { return }
            stage = .closed
            server.loop.unwatch(descriptor)
            Socket.close(descriptor)
            server.connections[ObjectIdentifier(self)] = nil
        }

        private func read() throws {
            switch ControlRequest.read(input.readable) {
            case .incomplete(let wantsContinue):
                guard wantsContinue, !hasContinued else { return }
                hasContinued = true
                output.append(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8))
                _ = try Socket.send(descriptor, from: output)
            case .wrong(let response): answer(response)
            case .whole(let request):
                stage = .waiting
                input.removeAll()
                server.desk.take(request) { [server] response in
                    server.loop.submit { self.answer(response) }
                }
            }
        }

        private func answer(_ response: ControlResponse) {
            guard stage == .reading || stage == .waiting else { return }
            stage = .writing
            output.append(response.bytes)
            do { try write() } catch { close() }
        }

        private func write() throws {
            guard try Socket.send(descriptor, from: output) else {
                server.loop.setWriting(descriptor, true)
                return
            }
            // Closing now would cut the answer off where bytes of the request are still unread.
            stage = .ending
            Socket.endWriting(descriptor)
            server.loop.setWriting(descriptor, false)
        }
    }
}
