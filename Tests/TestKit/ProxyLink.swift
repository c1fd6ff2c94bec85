internal import Base
internal import EventLoop
internal import Glibc

/// One connection through a proxy: a socket to the client, one to the server, and the bytes that
/// are on their way between them.
///
/// Loop only.
final class ProxyLink {
    /// One of the two sockets.
    private final class End: EventHandler {
        let descriptor: Int32
        let received: (Readiness) -> Void
        init(_ descriptor: Int32, _ received: @escaping (Readiness) -> Void) {
            self.descriptor = descriptor
            self.received = received
        }
        func ready(_ readiness: Readiness) { received(readiness) }
    }

    /// The bytes of one direction.
    private struct Stream {
        let queue = ByteQueue()
        /// When each part of the queue may go on.
        var parts: [(due: Instant, count: Int)] = []
        var isEnded = false
        /// The end of what arrived last, for texts that two packets share.
        var tail: [UInt8] = []
        var isTimed = false
        /// When the latest byte has passed a limited line.
        var lineFree = Instant(nanoseconds: 0)
    }

    /// What is done to replies that are not to arrive.
    private enum Withheld {
        /// Replies pass.
        case no
        /// This many bytes may still pass, then the link is cut when the server has been silent.
        case after(Int)
    }

    private unowned let core: ProxyCore
    private let loop: EventLoop
    private var client: End?
    private var server: End?
    private var up = Stream()
    private var down = Stream()
    private var withheld = Withheld.no
    private var lastByte = Instant(nanoseconds: 0)
    private var isReplied = false
    private var isClosed = false

    init(client: Int32, core: ProxyCore) throws {
        self.core = core
        loop = core.loop
        let addresses = try SocketAddress.resolve(host: "127.0.0.1", port: core.server)
        guard let address = addresses.first else { throw SystemError("no address") }
        let socket = try Socket.connect(address)
        self.client = End(client) { [unowned self] in ready($0, isClient: true) }
        server = End(socket) { [unowned self] in ready($0, isClient: false) }
    }

    func start() {
        guard let client, let server else { return }
        loop.watch(client.descriptor, client)
        loop.watch(server.descriptor, server)
    }

    /// Ends both sides with a reset.
    func reset() { close(withReset: true) }

    /// Closes a socket, with a reset where that is asked for (SO_LINGER of 0 in socket(7)).
    static func close(_ descriptor: Int32, withReset: Bool) {
        if withReset {
            var option = linger(l_onoff: 1, l_linger: 0)
            setsockopt(
                descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        }
        Glibc.close(descriptor)
    }

    private func close(withReset: Bool) {
        guard !isClosed else { return }
        isClosed = true
        for end in [client, server].compactMap({ $0 }) {
            loop.unwatch(end.descriptor)
            ProxyLink.close(end.descriptor, withReset: withReset)
        }
        core.forget(self)
    }

    private func ready(_ readiness: Readiness, isClient: Bool) {
        // Kept alive while it closes itself.
        let this = self
        if readiness.contains(.failed) && !readiness.contains(.readable) {
            this.close(withReset: true)
            return
        }
        if readiness.contains(.readable) { this.read(fromClient: isClient) }
        if readiness.contains(.writable), !isClosed { this.write(toClient: isClient) }
    }

    // MARK: Reading

    private func read(fromClient: Bool) {
        guard let end = fromClient ? client : server else { return }
        let packet = ByteQueue()
        let limit: Int
        if case .limit(let rate) = core.toxic {
            limit = max(64, min(4096, rate / 20))
        } else {
            limit = 64 * 1024
        }
        do {
            guard let count = try Socket.receive(end.descriptor, into: packet, limit: limit) else {
                return
            }
            guard count > 0 else {
                ended(fromClient: fromClient)
                return
            }
        } catch {
            close(withReset: true)
            return
        }
        lastByte = loop.now
        guard core.toxic != .blackHole else { return }
        if fromClient {
            lookAtRequest(packet.readable)
            take(packet, into: &up)
            write(toClient: false)
        } else {
            guard passes(packet) else { return }
            take(packet, into: &down)
            write(toClient: true)
        }
        if !isClosed { throttle(fromClient: fromClient) }
    }

    /// One side has nothing more to say: the other one hears of it after what is on its way.
    private func ended(fromClient: Bool) {
        if fromClient { up.isEnded = true } else { down.isEnded = true }
        if core.toxic == .blackHole || (up.isEnded && down.isEnded) {
            close(withReset: false)
            return
        }
        if let end = fromClient ? client : server {
            loop.setWriting(end.descriptor, false, reading: false)
        }
        write(toClient: !fromClient)
    }

    private func take(_ packet: ByteQueue, into stream: inout Stream) {
        let count = packet.count
        stream.queue.append(packet.readable)
        var due = loop.now
        switch core.toxic {
        case .pass, .blackHole, .refuse: break
        case .delay(let milliseconds): due = due + Nanoseconds.milliseconds(milliseconds)
        case .limit(let rate):
            due = max(due, stream.lineFree) + Int64(count) * 1_000_000_000 / Int64(max(rate, 1))
            stream.lineFree = due
        }
        // Bytes never overtake each other.
        due = max(due, stream.parts.last?.due ?? due)
        stream.parts.append((due, count))
    }

    private func throttle(fromClient: Bool) {
        guard let end = fromClient ? client : server else { return }
        let held = fromClient ? up.queue.count : down.queue.count
        let other = fromClient ? down : up
        if held > TCPProxy.heldLimit {
            loop.setWriting(end.descriptor, !other.queue.isEmpty, reading: false)
        }
    }

    // MARK: Writing

    private func write(toClient: Bool) {
        guard !isClosed, let end = toClient ? client : server,
            let source = toClient ? server : client
        else { return }
        let now = Instant.now()
        var stream = toClient ? down : up
        let wasFull = stream.queue.count > TCPProxy.heldLimit
        var due = 0
        while let part = stream.parts.first, part.due <= now {
            due += part.count
            stream.parts.removeFirst()
        }
        var sent = 0
        while sent < due {
            let bytes = stream.queue.readable
            let count = Glibc.send(
                end.descriptor, bytes.baseAddress, due - sent, Int32(MSG_NOSIGNAL))
            if count > 0 {
                stream.queue.consume(count)
                sent += count
            } else if errno == EAGAIN {
                break
            } else if errno != EINTR {
                close(withReset: true)
                return
            }
        }
        if sent < due { stream.parts.insert((now, due - sent), at: 0) }
        let waitsForSocket = sent < due
        let isFull = stream.queue.count > TCPProxy.heldLimit
        if toClient { down = stream } else { up = stream }
        loop.setWriting(
            end.descriptor, waitsForSocket, reading: !(toClient ? up : down).isEnded)
        if wasFull, !isFull, !stream.isEnded {
            loop.setWriting(source.descriptor, false, reading: true)
        }
        if stream.queue.isEmpty, stream.isEnded {
            shutdown(end.descriptor, Int32(SHUT_WR))
        } else if !waitsForSocket, let next = stream.parts.first, !stream.isTimed {
            if toClient { down.isTimed = true } else { up.isTimed = true }
            loop.schedule(at: next.due) { [weak self] in
                guard let self else { return }
                if toClient { down.isTimed = false } else { up.isTimed = false }
                write(toClient: toClient)
            }
        }
    }

    // MARK: Cuts

    /// Looks for the text of an armed cut in what the client sends.
    private func lookAtRequest(_ bytes: UnsafeRawBufferPointer) {
        guard case .replyTo(let text, let passing) = core.armed else {
            up.tail = []
            return
        }
        guard found(text, bytes, &up.tail) else { return }
        core.armed = nil
        withheld = .after(passing)
        isReplied = false
    }

    /// Takes from a packet of replies what must not arrive; false when nothing of it is left.
    private func passes(_ packet: ByteQueue) -> Bool {
        if case .after(let left) = withheld {
            let passing = min(left, packet.count)
            let part = ByteQueue()
            part.append(UnsafeRawBufferPointer(rebasing: packet.readable[..<passing]))
            withheld = .after(left - passing)
            if passing > 0 {
                take(part, into: &down)
                write(toClient: true)
            }
            if !isReplied {
                isReplied = true
                cutWhenSettled()
            }
            return false
        }
        switch core.armed {
        case .reply(let text):
            guard found(text, packet.readable, &down.tail) else { return true }
            core.armed = nil
            core.noteCut()
            reset()
            return false
        case .afterReplyBytes(let left):
            guard packet.count >= left else {
                core.armed = .afterReplyBytes(left - packet.count)
                return true
            }
            core.armed = nil
            withheld = .after(left)
            isReplied = false
            return passes(packet)
        case .replyTo, nil:
            down.tail = []
            return true
        }
    }

    /// Cuts the link once neither side has said anything for a while: the server has done what it
    /// was asked for.
    private func cutWhenSettled() {
        loop.schedule(after: TCPProxy.settleTime) { [weak self] in
            guard let self, !isClosed else { return }
            if loop.now - lastByte < TCPProxy.settleTime {
                cutWhenSettled()
                return
            }
            core.noteCut()
            reset()
        }
    }

    /// Whether `text` stands in `bytes`, which follow on `tail`.
    private func found(
        _ text: String, _ bytes: UnsafeRawBufferPointer, _ tail: inout [UInt8]
    ) -> Bool {
        let wanted = Array(text.utf8)
        guard !wanted.isEmpty else { return true }
        let kept = tail.count
        let isFound = (tail + bytes).withUnsafeBytes { ProxyLink.contains($0, wanted) }
        let rest = min(wanted.count - 1, kept + bytes.count)
        tail = Array((tail + bytes).suffix(rest))
        return isFound
    }
    private static func contains(_ bytes: UnsafeRawBufferPointer, _ wanted: [UInt8]) -> Bool {
        guard let base = bytes.baseAddress, let first = wanted.first else { return false }
        var start = 0
        while start + wanted.count <= bytes.count {
            let room = bytes.count - wanted.count + 1 - start
            guard let hit = memchr(base + start, Int32(first), room) else { return false }
            if memcmp(hit, wanted, wanted.count) == 0 { return true }
            start = UnsafeRawPointer(hit) - base + 1
        }
        return false
    }
}
