internal import Base
internal import EventLoop
internal import Glibc
internal import TLS

/// One open connection to a Redis or a Sentinel: a socket, TLS where it is asked for, and Redis'
/// protocol on it.
///
/// Every wait ends at a deadline. After an error it must be let go of, since a late reply would
/// answer another command. One thread at a time.
final class RedisWire {
    /// What is at the other end, for messages: `Redis at 127.0.0.1:6379`.
    let peer: String

    private let descriptor: Int32
    private let tls: TLSConnection?
    private let reader = ReplyReader()
    private let output = ByteQueue()
    private let input = ByteQueue()

    /// Connects, with the TLS handshake when there is a `context`.
    init(
        to endpoint: RedisAddress.Endpoint, peer: String, context: TLSContext?, deadline: Instant
    ) throws(RedisError) {
        self.peer = peer
        do throws(TLSError) {
            tls = try context.map { context throws(TLSError) in
                try TLSConnection(context, serverName: endpoint.host)
            }
        } catch {
            throw RedisError(.unsuitable, "\(peer): \(error)")
        }
        descriptor = try RedisWire.open(endpoint, peer, deadline)
        if let tls { try handshake(tls, deadline) }
    }

    deinit { Socket.close(descriptor) }

    /// Sends all commands at once and returns one reply for each; error replies stand in the list.
    func exchange(
        _ commands: [[[UInt8]]], deadline: Instant
    ) throws(RedisError) -> [RedisReply] {
        for command in commands { encode(command) }
        if let tls {
            do throws(TLSError) { try tls.send(output) } catch { throw failure(error) }
        }
        try flush(deadline)
        var replies: [RedisReply] = []
        replies.reserveCapacity(commands.count)
        while true {
            while replies.count < commands.count, let reply = try reader.next() {
                replies.append(reply)
            }
            guard replies.count < commands.count else { return replies }
            guard RedisWire.wait(descriptor, Int16(POLLIN), until: deadline) else {
                throw RedisError(.lost, "\(peer) did not answer in time")
            }
            do throws(RedisError) {
                try receive()
            } catch {
                // A server that is full or protected gives one error and closes.
                guard case .error(let text) = replies.last else { throw error }
                throw RedisError(error.code, "\(error), after the answer: \(text)")
            }
        }
    }

    // MARK: Bytes

    private func encode(_ command: [[UInt8]]) {
        output.append(Array("*\(command.count)\r\n".utf8))
        for argument in command {
            output.append(Array("$\(argument.count)\r\n".utf8))
            output.append(argument)
            output.append([13, 10])
        }
    }

    private func flush(_ deadline: Instant) throws(RedisError) {
        do throws(SystemError) {
            while !(try Socket.send(descriptor, from: tls?.outgoing ?? output)) {
                guard RedisWire.wait(descriptor, Int16(POLLOUT), until: deadline) else {
                    throw SystemError("sending to Redis", number: ETIMEDOUT)
                }
            }
        } catch {
            // A server that refuses our certificate says so and closes: its alert explains more.
            if tls != nil { try receive() }
            throw failure(error)
        }
    }

    /// Reads what is there and hands it to the reader of replies.
    private func receive() throws(RedisError) {
        do throws(SystemError) {
            let queue = tls?.received ?? input
            guard let count = try Socket.receive(descriptor, into: queue, limit: 64 * 1024)
            else { return }
            guard count > 0 else {
                throw SystemError("Redis closed the connection", number: ECONNRESET)
            }
        } catch {
            throw failure(error)
        }
        guard let tls else {
            reader.feed(input.readable)
            input.removeAll()
            return
        }
        try advance(tls)
        reader.feed(tls.plaintext.readable)
        tls.plaintext.removeAll()
    }

    // MARK: Connecting

    private static func open(
        _ endpoint: RedisAddress.Endpoint, _ peer: String, _ deadline: Instant
    ) throws(RedisError) -> Int32 {
        var reason = "no address"
        let candidates = try resolve(endpoint, peer, deadline)
        for (index, candidate) in candidates.enumerated() {
            // No address may use up the time of those after it.
            let share = (deadline - Instant.now()) / Int64(candidates.count - index)
            do throws(SystemError) {
                return try open(candidate, Instant.now() + share)
            } catch {
                reason = error.description
            }
        }
        throw RedisError(.unreachable, "\(peer) cannot be reached (\(reason))")
    }

    private static func open(
        _ candidate: SocketAddress, _ deadline: Instant
    ) throws(SystemError) -> Int32 {
        let socket = try Socket.connect(candidate)
        var number = ETIMEDOUT
        if wait(socket, Int16(POLLOUT), until: deadline) {
            number = Socket.connectionError(socket)
        }
        guard number == 0 else {
            Socket.close(socket)
            throw SystemError("connecting to \(candidate)", number: number)
        }
        return socket
    }

    /// Asks the resolver, on a thread of its own: it may take many seconds when no name server
    /// answers.
    private static func resolve(
        _ endpoint: RedisAddress.Endpoint, _ peer: String, _ deadline: Instant
    ) throws(RedisError) -> [SocketAddress] {
        let (host, port) = (endpoint.host, endpoint.port)
        let answer = Mailbox<Result<[SocketAddress], SystemError>>(limit: 1)
        let ask: @Sendable () -> Void = {
            do throws(SystemError) {
                answer.add(.success(try SocketAddress.resolve(host: host, port: port)))
            } catch {
                answer.add(.failure(error))
            }
        }
        if isNumeric(host) {
            ask()
        } else {
            _ = Thread("resolve") {
                pthread_detach(pthread_self())  // nobody waits for its end
                ask()
            }
        }
        switch answer.take(waitingAtMost: max(deadline - Instant.now(), 0)).first {
        case .success(let addresses): return addresses
        case .failure(let error): throw RedisError(.unreachable, "\(peer): \(error)")
        case nil:
            throw RedisError(
                .unreachable, "\(peer): no name server said in time which address \(host) has")
        }
    }

    private static func isNumeric(_ host: String) -> Bool {
        var room = in6_addr()
        return inet_pton(AF_INET, host, &room) == 1 || inet_pton(AF_INET6, host, &room) == 1
    }

    private func handshake(_ tls: TLSConnection, _ deadline: Instant) throws(RedisError) {
        try advance(tls)
        while true {
            try flush(deadline)
            if tls.isEstablished { return }
            guard RedisWire.wait(descriptor, Int16(POLLIN), until: deadline) else {
                throw RedisError(
                    .unreachable,
                    "\(peer) did not finish the TLS handshake in time; does that port speak TLS?")
            }
            try receive()
        }
    }

    private func advance(_ tls: TLSConnection) throws(RedisError) {
        do throws(TLSError) {
            try tls.advance()
        } catch {
            // The alert tells the other side why; whether it arrives does not matter any more.
            _ = try? Socket.send(descriptor, from: tls.outgoing)
            throw failure(error)
        }
    }

    // MARK: Failures

    private func failure(_ error: SystemError) -> RedisError {
        RedisError(.lost, "the connection to \(peer) broke: \(error)")
    }

    private func failure(_ error: TLSError) -> RedisError {
        let text = error.description
        if error.code == .certificate {
            return RedisError(
                .unsuitable,
                "\(peer): \(text); check --redis-ca, and that the certificate carries this name")
        }
        guard let alert = text.firstRange(of: "alert ").map({ text[$0.upperBound...] }) else {
            let hint = text.contains("wrong version number") ? "; does that port speak TLS?" : ""
            return RedisError(.lost, "the connection to \(peer) broke: \(text)\(hint)")
        }
        // Alerts about our certificate (RFC 8446 section 6.2); TLS 1.2 says handshake failure when
        // it misses one.
        let isOurs = ["certificate", "unknown ca", "handshake failure"].contains {
            alert.contains($0)
        }
        return RedisError(
            isOurs ? .unsuitable : .lost,
            "\(peer) refused the TLS connection (\(alert))"
                + (isOurs ? "; check --redis-cert and --redis-key, which it may ask for" : ""))
    }

    private static func wait(_ descriptor: Int32, _ events: Int16, until deadline: Instant) -> Bool
    {
        while true {
            let left = deadline - Instant.now()
            guard left > 0 else { return false }
            var entry = pollfd(fd: descriptor, events: events, revents: 0)
            let result = poll(&entry, 1, Int32(min((left + 999_999) / 1_000_000, 60_000)))
            if result > 0 { return true }
        }
    }
}
