package import Base
internal import CLinux
internal import Glibc

/// A numeric socket address with its port.
package struct SocketAddress: Sendable, Hashable, CustomStringConvertible {
    let bytes: [UInt8]
    package let description: String
    package let isIPv6: Bool

    func withPointer<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        bytes.withUnsafeBytes { raw in
            guard let base = raw.baseAddress else {
                preconditionFailure("a socket address has bytes")
            }
            return body(base.assumingMemoryBound(to: sockaddr.self), socklen_t(raw.count))
        }
    }

    /// Asks the system's resolver; blocks.
    ///
    /// IPv4 and IPv6 in the resolver's order.
    package static func resolve(host: String, port: Int) throws(SystemError) -> [SocketAddress] {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_family = AF_UNSPEC
        var list: UnsafeMutablePointer<addrinfo>?
        let result = getaddrinfo(host, String(port), &hints, &list)
        guard result == 0 else {
            throw SystemError(
                "\(host) cannot be resolved (\(String(cString: gai_strerror(result))))",
                number: ENOENT)
        }
        defer { freeaddrinfo(list) }
        var addresses: [SocketAddress] = []
        var entry = list
        while let current = entry {
            if let pointer = current.pointee.ai_addr {
                let length = Int(current.pointee.ai_addrlen)
                let raw = UnsafeRawBufferPointer(start: pointer, count: length)
                var text = [CChar](repeating: 0, count: 64)
                getnameinfo(
                    pointer, current.pointee.ai_addrlen, &text, 64, nil, 0, NI_NUMERICHOST)
                let name = String(
                    decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
                let isIPv6 = current.pointee.ai_family == AF_INET6
                let address = SocketAddress(
                    bytes: Array(raw),
                    description: isIPv6 ? "[\(name)]:\(port)" : "\(name):\(port)",
                    isIPv6: isIPv6)
                if !addresses.contains(address) { addresses.append(address) }
            }
            entry = current.pointee.ai_next
        }
        return addresses
    }
}

/// Asks the resolver on a thread of its own, so that no loop waits for it.
package enum NameLookup {
    package static func resolve(
        host: String, port: Int, on loop: EventLoop,
        _ completion: @escaping @Sendable (Result<[SocketAddress], SystemError>) -> Void
    ) {
        _ = Thread("resolve") {
            let result: Result<[SocketAddress], SystemError>
            do throws(SystemError) {
                result = .success(try SocketAddress.resolve(host: host, port: port))
            } catch {
                result = .failure(error)
            }
            loop.submit { completion(result) }
        }
    }
}

/// Stream sockets that never block.
package enum Socket {
    /// Starts to connect; completion shows as writability, then `connectionError` tells.
    package static func connect(_ address: SocketAddress) throws(SystemError) -> Int32 {
        let family = address.isIPv6 ? AF_INET6 : AF_INET
        let flags = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let descriptor = socket(family, flags, 0)
        guard descriptor >= 0 else { throw SystemError("no socket") }
        setNoDelay(descriptor)
        let result = address.withPointer { Glibc.connect(descriptor, $0, $1) }
        guard result == 0 || errno == EINPROGRESS else {
            let failure = SystemError("connecting to \(address)")
            Glibc.close(descriptor)
            throw failure
        }
        return descriptor
    }

    /// The error number a finished connection attempt left, 0 for success.
    package static func connectionError(_ descriptor: Int32) -> Int32 {
        var number: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &number, &length)
        return number
    }

    package static func setNoDelay(_ descriptor: Int32) {
        var one: Int32 = 1
        setsockopt(
            descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one,
            socklen_t(MemoryLayout<Int32>.size))
    }

    /// Bounds the bytes that the kernel takes before it has sent the earlier ones; beyond it `send`
    /// answers that it must wait (TCP_NOTSENT_LOWAT of tcp(7)).
    package static func limitUnsent(_ descriptor: Int32, bytes: Int) {
        var value = Int32(clamping: bytes)
        setsockopt(
            descriptor, Int32(IPPROTO_TCP), TCP_NOTSENT_LOWAT, &value,
            socklen_t(MemoryLayout<Int32>.size))
    }

    /// Reads what is there, up to `limit` bytes.
    ///
    /// Returns 0 at the end of the stream, nil when nothing is there.
    package static func receive(
        _ descriptor: Int32, into queue: ByteQueue, limit: Int
    ) throws(SystemError) -> Int? {
        let space = queue.reserve(limit)
        let count = recv(descriptor, space.baseAddress, space.count, 0)
        if count >= 0 {
            queue.commit(count)
            return count
        }
        if errno == EAGAIN || errno == EINTR { return nil }
        throw SystemError("receiving")
    }

    /// Sends as much as the system takes; true when the queue is empty.
    package static func send(_ descriptor: Int32, from queue: ByteQueue) throws(SystemError) -> Bool
    {
        while !queue.isEmpty {
            let bytes = queue.readable
            let count = Glibc.send(
                descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
            if count > 0 {
                queue.consume(count)
                continue
            }
            if errno == EINTR { continue }
            if errno == EAGAIN { return false }
            throw SystemError("sending")
        }
        return true
    }

    /// Has `close` send a reset instead of the end of the stream (SO_LINGER of socket(7)).
    package static func discardOnClose(_ descriptor: Int32) {
        var value = linger(l_onoff: 1, l_linger: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_LINGER, &value, socklen_t(MemoryLayout<linger>.size))
    }

    /// Tells the peer that nothing more is sent, and goes on reading.
    package static func endWriting(_ descriptor: Int32) {
        _ = shutdown(descriptor, Int32(SHUT_WR))
    }

    package static func close(_ descriptor: Int32) { Glibc.close(descriptor) }
}

/// Accepts connections on a loopback or other address.
package final class Listener: EventHandler {
    package let port: Int
    private let descriptor: Int32
    private let loop: EventLoop
    private var accepted: ((Int32) -> Void)?

    /// - `port`: 0 for a free one; `port` then tells which.
    /// - `shared`: several listeners of one process may share the port (SO_REUSEPORT).
    package init(
        host: String, port: Int, loop: EventLoop, shared: Bool = false
    ) throws(SystemError) {
        guard let address = try SocketAddress.resolve(host: host, port: port).first else {
            throw SystemError("\(host) has no address", number: ENOENT)
        }
        let flags = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let descriptor = socket(address.isIPv6 ? AF_INET6 : AF_INET, flags, 0)
        guard descriptor >= 0 else { throw SystemError("no socket") }
        var one: Int32 = 1
        let size = socklen_t(MemoryLayout<Int32>.size)
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, size)
        if shared { setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &one, size) }
        let bound = address.withPointer { bind(descriptor, $0, $1) }
        guard bound == 0, listen(descriptor, 1024) == 0 else {
            let failure = SystemError("listening on \(address)")
            Glibc.close(descriptor)
            throw failure
        }
        var storage = sockaddr_in6()
        var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
        _ = withUnsafeMutablePointer(to: &storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                getsockname(descriptor, $0, &length)
            }
        }
        self.port = Int(UInt16(bigEndian: storage.sin6_port))
        self.descriptor = descriptor
        self.loop = loop
    }

    /// Begins to accept (loop only); `accepted` takes each connection, which is its own from then.
    package func start(_ accepted: @escaping (Int32) -> Void) {
        self.accepted = accepted
        loop.watch(descriptor, self)
    }

    /// Stops accepting (loop only).
    package func stop() {
        loop.unwatch(descriptor)
        Glibc.close(descriptor)
    }

    package func ready(_ readiness: Readiness) {
        for _ in 0..<64 {
            let flags = Int32(SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
            let connection = peal_accept(descriptor, flags)
            guard connection >= 0 else { return }
            Socket.setNoDelay(connection)
            accepted?(connection)
        }
    }
}
