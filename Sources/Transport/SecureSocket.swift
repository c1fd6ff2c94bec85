package import Base
package import EventLoop
package import TLS

/// What the owner of a secure socket hears.
package protocol SecureSocketOwner: AnyObject {
    /// TCP and TLS are up and HTTP/2 is agreed.
    func socketEstablished()
    /// New bytes stand in `plaintext`.
    func socketReceived()
    /// The connection is gone; nothing more will be heard. Nil: the peer closed in an orderly way.
    func socketClosed(_ cause: SocketFailure?)
}

/// Why a connection ended, by the stage it had reached.
package enum SocketFailure: Error, Sendable, CustomStringConvertible {
    /// TCP never came up: nothing was sent.
    case connect(String)
    /// TLS never came up: nothing was sent.
    case tls(TLSError)
    /// An established connection broke.
    case broken(String)

    package var description: String {
        switch self {
        case .connect(let text), .broken(let text): text
        case .tls(let error): error.description
        }
    }
}

/// A TCP connection with TLS on a loop, client or server side.
///
/// Loop only.
package final class SecureSocket: EventHandler {
    /// Bytes read from the kernel at once.
    private static let readLimit = 128 * 1024

    package var plaintext: ByteQueue { tls.plaintext }
    /// Encrypted bytes that the kernel has not taken yet.
    package var backlog: Int { tls.outgoing.count }
    package weak var owner: (any SecureSocketOwner)?

    private let loop: EventLoop
    private let tls: TLSConnection
    private let descriptor: Int32
    private var isConnecting: Bool
    private var isWaitingToWrite = false
    private var isClosed = false

    /// Connects to `address` and checks that the certificate carries `serverName`.
    ///
    /// - `unsentLimit`: bytes that the kernel may hold unsent; nil for its own measure.
    package init(
        connectingTo address: SocketAddress, serverName: String, context: TLSContext,
        loop: EventLoop, unsentLimit: Int? = nil
    ) throws {
        tls = try TLSConnection(context, serverName: serverName)
        descriptor = try Socket.connect(address)
        if let unsentLimit { Socket.limitUnsent(descriptor, bytes: unsentLimit) }
        self.loop = loop
        isConnecting = true
        loop.watch(descriptor, self, writing: true)
    }

    /// Takes over a connection that a listener accepted.
    package init(accepted descriptor: Int32, context: TLSContext, loop: EventLoop) throws {
        do {
            tls = try TLSConnection(context, serverName: nil)
        } catch {
            Socket.close(descriptor)
            throw error
        }
        self.descriptor = descriptor
        self.loop = loop
        isConnecting = false
        loop.watch(descriptor, self)
    }

    /// Encrypts and sends all of `bytes`.
    package func send(_ bytes: ByteQueue) {
        guard !isClosed, !bytes.isEmpty else { return }
        do {
            try tls.send(bytes)
        } catch {
            fail(.tls(error))
            return
        }
        write()
    }

    /// Closes at once; the owner hears nothing more.
    package func close() {
        guard !isClosed else { return }
        isClosed = true
        tls.close()
        _ = try? Socket.send(descriptor, from: tls.outgoing)
        loop.unwatch(descriptor)
        Socket.close(descriptor)
    }

    /// Ends the connection without a word of TLS; the owner hears nothing more.
    ///
    /// - `reset`: the peer sees a TCP reset instead of the end of the stream; bytes that are still
    ///   under way may be lost with it.
    package func abort(reset: Bool) {
        guard !isClosed else { return }
        isClosed = true
        loop.unwatch(descriptor)
        if reset { Socket.discardOnClose(descriptor) }
        Socket.close(descriptor)
    }

    package func ready(_ readiness: Readiness) {
        if isConnecting {
            guard finishConnecting(readiness) else { return }
        } else if readiness.contains(.writable) {
            write()
        }
        if !isClosed, readiness.contains(.readable) || readiness.contains(.failed) { read() }
    }

    private func finishConnecting(_ readiness: Readiness) -> Bool {
        let number = Socket.connectionError(descriptor)
        if number != 0 {
            fail(.connect(SystemError("connecting", number: number).description))
            return false
        }
        guard readiness.contains(.writable) else { return false }
        isConnecting = false
        loop.setWriting(descriptor, false)
        advance()
        return !isClosed
    }

    private func read() {
        do {
            guard
                let count = try Socket.receive(
                    descriptor, into: tls.received, limit: SecureSocket.readLimit)
            else { return }
            let ended = count == 0
            advance()
            guard !isClosed, ended || tls.peerClosed else { return }
            if tls.isEstablished {
                finish(
                    tls.peerClosed ? nil : .broken("the peer closed the connection without a word"))
            } else {
                fail(
                    .tls(
                        TLSError(.closed, "the peer closed the connection during the TLS handshake")
                    ))
            }
        } catch {
            fail(tls.isEstablished ? .broken(error.description) : .connect(error.description))
        }
    }

    private func advance() {
        let wasEstablished = tls.isEstablished
        do {
            try tls.advance()
        } catch {
            write()  // the alert that tells the peer why
            fail(wasEstablished ? .broken(error.description) : .tls(error))
            return
        }
        write()
        guard !isClosed else { return }
        if !wasEstablished, tls.isEstablished { owner?.socketEstablished() }
        if !isClosed, !tls.plaintext.isEmpty { owner?.socketReceived() }
    }

    private func write() {
        guard !isClosed, !isConnecting else { return }
        do {
            let done = try Socket.send(descriptor, from: tls.outgoing)
            guard done == isWaitingToWrite else { return }
            isWaitingToWrite = !done
            loop.setWriting(descriptor, isWaitingToWrite)
        } catch {
            fail(tls.isEstablished ? .broken(error.description) : .connect(error.description))
        }
    }

    private func fail(_ failure: SocketFailure) { finish(failure) }

    private func finish(_ failure: SocketFailure?) {
        guard !isClosed else { return }
        close()
        owner?.socketClosed(failure)
    }
}
