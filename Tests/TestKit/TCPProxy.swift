internal import Base
internal import EventLoop

/// Stands between two processes on loopback and disturbs their connection as a test asks for.
///
/// 1. Passes bytes on, late or slowly where a `Toxic` says so, or swallows them.
/// 2. Cuts all connections at once with a reset, or refuses new ones.
/// 3. Cuts a connection exactly when a reply is due: the request arrives at the server, its answer
///    does not arrive at the client.
///
/// It has a thread of its own. What it holds back for one connection is bounded by `heldLimit`:
/// beyond that it reads no more.
package final class TCPProxy: Sendable {
    /// What is done to the bytes of all connections, in both directions.
    package enum Toxic: Sendable, Equatable {
        case pass
        /// Everything is taken and nothing passed on, as a cable that is cut; new connections are
        /// accepted. What passed bytes over in it is cut at its end.
        case blackHole
        /// Connections are cut and new ones refused.
        case refuse
        /// Bytes arrive this much later, in each direction.
        case delay(milliseconds: Int)
        /// No more than this in each direction.
        case limit(bytesPerSecond: Int)
    }

    /// When a connection is cut; each one takes effect once.
    package enum Cut: Sendable {
        /// When the reply to a request that contains `text` is due, after `passing` bytes of it.
        ///
        /// A text that two packets share is found, too. What the server does with the request it
        /// has done: the connection is cut when it has been silent for `settleTime`.
        case replyTo(text: String, passing: Int = 0)
        /// When a reply that contains `text` is due, of which nothing is passed on.
        case reply(text: String)
        /// After so many bytes of replies, whatever they are.
        case afterReplyBytes(Int)
    }

    /// Bytes that are held back for one direction of a connection at most, and a packet more.
    package static let heldLimit = 4 << 20
    /// Silence after which a reply counts as complete, in nanoseconds.
    static let settleTime = Nanoseconds.milliseconds(30)

    /// Where clients connect to.
    package let port: Int
    private let core: ProxyCore
    private let loop: EventLoop

    /// - `server`: the port on loopback that connections lead to.
    package init(to server: Int) throws {
        loop = try EventLoop(name: "proxy")
        core = ProxyCore(server: server, loop: loop)
        port = try core.listen(port: 0)
        _ = loop.start()
        let core = core
        loop.submit { core.start() }
    }

    deinit {
        let (core, loop) = (core, loop)
        loop.submit {
            core.end()
            loop.stop()
        }
    }

    /// Changes what is done to bytes that arrive from now on; held ones are passed on when due.
    package func set(_ toxic: Toxic) { run { $0.set(toxic) } }

    /// Arms a cut, in place of one that has not come about yet.
    package func arm(_ cut: Cut) { run { $0.armed = cut } }

    /// Takes back a cut that has not come about yet.
    package func disarm() { run { $0.armed = nil } }

    /// Waits until what clients have sent so far is passed on, where nothing delays it.
    package func settle() {
        // The loop polls between two pieces of work.
        for _ in 0..<3 { run { _ in } }
    }

    /// Cuts all connections with a reset.
    package func cutAll() { run { $0.cutAll() } }

    /// Connections that armed cuts have ended so far.
    package var cuts: Int { core.counts.withLock { $0.cuts } }
    /// Connections that clients have opened so far.
    package var connections: Int { core.counts.withLock { $0.connections } }

    /// Does it on the thread of the proxy and waits for it.
    private func run(_ work: @escaping @Sendable (ProxyCore) -> Void) {
        let done = Mailbox<Void>(limit: 1)
        let core = core
        loop.submit {
            work(core)
            done.add(())
        }
        _ = done.take(waitingAtMost: Nanoseconds.seconds(10))
    }
}

/// The state of a proxy.
///
/// Loop only, but for `counts`.
final class ProxyCore: @unchecked Sendable {
    let server: Int
    let loop: EventLoop
    let counts = Lock((connections: 0, cuts: 0))
    var armed: TCPProxy.Cut?
    private(set) var toxic = TCPProxy.Toxic.pass
    private var listener: Listener?
    private var port = 0
    private var links: [ObjectIdentifier: ProxyLink] = [:]

    init(server: Int, loop: EventLoop) {
        self.server = server
        self.loop = loop
    }

    /// Takes the port, before the loop turns.
    func listen(port: Int) throws -> Int {
        let listener = try Listener(host: "127.0.0.1", port: port, loop: loop)
        self.listener = listener
        self.port = listener.port
        return listener.port
    }

    func start() { listener?.start { [unowned self] in accept($0) } }

    func end() {
        listener?.stop()
        listener = nil
        cutAll()
    }

    func set(_ wanted: TCPProxy.Toxic) {
        let wasBlackHole = toxic == .blackHole
        toxic = wanted
        if wasBlackHole, wanted != .blackHole { cutAll() }
        if wanted == .refuse {
            listener?.stop()
            listener = nil
            cutAll()
        } else if listener == nil {
            listenAgain()
        }
    }

    /// The port may be taken for a moment by somebody who looks for a free one.
    private func listenAgain() {
        guard listener == nil, toxic != .refuse else { return }
        if (try? listen(port: port)) != nil {
            start()
        } else {
            loop.schedule(after: Nanoseconds.milliseconds(20)) { [unowned self] in listenAgain() }
        }
    }

    func cutAll() {
        for link in Array(links.values) { link.reset() }
    }

    func forget(_ link: ProxyLink) { links[ObjectIdentifier(link)] = nil }

    /// An armed cut has come about.
    func noteCut() { counts.withLock { $0.cuts += 1 } }

    private func accept(_ client: Int32) {
        counts.withLock { $0.connections += 1 }
        guard let link = try? ProxyLink(client: client, core: self) else {
            ProxyLink.close(client, withReset: true)
            return
        }
        links[ObjectIdentifier(link)] = link
        link.start()
    }
}
