import APNs
import APNsClient
import APNsSimulator
import Base
import Crypto
import EventLoop
import Glibc
import TLS
import Telemetry
import TestKit
import Testing

/// A pool on a loop of its own with a list of numbered pushes to send, and what became of them.
final class Sender: PushSource, CredentialSource, @unchecked Sendable {
    enum Outcome: Equatable, Sendable {
        case accepted
        case answered(String)
        case notProcessed
        case unknown(String)
    }
    struct Results: Sendable {
        /// All outcomes of a push, in order.
        var outcomes: [UInt64: [Outcome]] = [:]
        /// When each push was handed out.
        var sentAt: [Instant] = []
        var latencies: [Int64] = []
        var refusedTokens: [String] = []
        var holds = 0
    }

    let loop: EventLoop
    private var pool: APNsPool?
    private var queue: [UInt64] = []  // loop only
    private var next = 0  // loop only
    private let resends: Bool
    private let template = PushTemplate(
        topic: "com.example.app", pushType: .alert, priority: 10, expiration: nil, collapseID: nil,
        payload: Array(#"{"aps":{"alert":"hello"}}"#.utf8))
    private var tokens: ProviderTokenSource?
    private var thread: Thread?
    private let shared = Lock(Results())

    /// A sender that trusts the roots in the file `trust`; with `resends` it sends again what was
    /// not processed.
    init(
        port: Int, trust: String, credential: ProviderCredential? = nil, resends: Bool = false,
        _ change: (inout PoolSettings) -> Void = { _ in }
    ) throws {
        loop = try EventLoop(name: "sender")
        self.resends = resends
        tokens = credential.map { ProviderTokenSource(credential: $0) }
        memory.initializeMemory(as: UInt8.self, repeating: 0x5A)
        var settings = PoolSettings()
        settings.connections = 1
        change(&settings)
        pool = APNsPool(
            name: "test", host: "127.0.0.1", port: port,
            context: try TLSContext(clientTrusting: trust), loop: loop, settings: settings,
            source: self, credential: self, seed: 1, log: Log(level: .error))
        loop.tickHandler = { [unowned self] in pool?.tick(now: loop.now) }
        loop.submit { self.loop.isTicking = true }
        thread = loop.start()
    }

    /// Opens the connections and sends pushes numbered 0 ..< count.
    func send(_ count: Int) {
        loop.submit {
            self.queue += (0..<UInt64(count))
            self.pool?.start()
        }
    }

    func onLoop(_ body: @escaping @Sendable (APNsPool) -> Void) {
        loop.submit { if let pool = self.pool { body(pool) } }
    }

    /// Closes all connections and ends the thread.
    func stop() {
        onLoop { $0.closeAll() }
        loop.stop()
        thread?.join()
        pool = nil
    }

    var results: Results { shared.withLock { $0 } }
    var status: PoolStatus? {
        let box = Lock<PoolStatus?>(nil)
        onLoop { pool in box.withLock { $0 = pool.status } }
        _ = waitUntil { box.withLock { $0 != nil } }
        return box.withLock { $0 }
    }

    /// Waits until `count` pushes have their last outcome.
    func waitForAll(_ count: Int, seconds: Int = 20) -> Bool {
        waitUntil(seconds: seconds) {
            self.shared.withLock { results in
                results.outcomes.count { !self.resends || $0.value.last != .notProcessed } >= count
            }
        }
    }

    // MARK: PushSource

    func nextPush(now: Instant) -> Push? {
        guard next < queue.count else { return nil }
        let tag = queue[next]
        next += 1
        memory.storeBytes(of: tag.bigEndian, as: UInt64.self)
        shared.withLock { $0.sentAt.append(now) }
        return Push(
            template: template, token: UnsafeRawBufferPointer(memory), id: (tag, ~tag), tag: tag)
    }
    private let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 32, alignment: 8)
    deinit { memory.deallocate() }

    func pushEnded(tag: UInt64, _ outcome: PushOutcome, latency: Int64, now: Instant) {
        let short: Outcome =
            switch outcome {
            case .accepted: .accepted
            case .answered(let response, _): .answered(response.label)
            case .notProcessed: .notProcessed
            case .unknown(let why): .unknown(why)
            }
        if resends, short == .notProcessed { queue.append(tag) }
        shared.withLock {
            $0.outcomes[tag, default: []].append(short)
            $0.latencies.append(latency)
        }
    }

    // MARK: CredentialSource

    func tokenForNewConnection(nowSeconds: Int64) -> ProviderToken? {
        tokens?.tokenForNewConnection(at: nowSeconds)
    }

    func replacement(for held: ProviderToken, changedAt: Int64, nowSeconds: Int64) -> ProviderToken?
    {
        tokens?.replacement(for: held, changedAt: changedAt, at: nowSeconds)
    }

    func refused(_ token: ProviderToken, nowSeconds: Int64) -> Bool {
        shared.withLock { $0.refusedTokens.append(token.text) }
        return tokens?.tokenAfterRefusal(of: token, at: nowSeconds) != nil
    }

    func hold(nowSeconds: Int64) {
        shared.withLock { $0.holds += 1 }
        tokens?.hold(at: nowSeconds)
    }
}

/// Runs `body` with a scripted server and a sender to it, and ends both.
func withServer(
    limit: Int = 100, resends: Bool = false, credential: ProviderCredential? = nil,
    settings: (inout PoolSettings) -> Void = { _ in },
    script: @escaping FaultServer.Script, _ body: (Sender, FaultServer) throws -> Void
) throws {
    let files = try #require(Certificates.files)
    let server = try FaultServer(
        files: (files.certificate, files.key), limit: limit, script: script)
    let sender = try Sender(
        port: server.port, trust: files.authority, credential: credential, resends: resends,
        settings)
    defer {
        sender.stop()
        server.stop()
    }
    try body(sender, server)
}

/// Waits for a condition of another thread, with a bound.
func waitUntil(seconds: Int = 10, _ condition: () -> Bool) -> Bool {
    (try? blockUntil("the other thread is there", within: .seconds(seconds), condition)) != nil
}

/// Certificates and keys of one test run, made once.
enum Certificates {
    static let files: TestFiles? = make()
    /// Those of another authority.
    static let strangers: TestFiles? = make()

    private static func make() -> TestFiles? {
        guard let folder = try? TemporaryDirectory() else { return nil }
        folders.withLock { folders in
            // Statics are never released: the end of the process lets go of the folders.
            if folders.isEmpty { atexit { Certificates.folders.withLock { $0.removeAll() } } }
            folders.append(folder)
        }
        return try? TestFiles.prepare(in: folder.path)
    }

    private static let folders = Lock<[TemporaryDirectory]>([])

    static func credential() throws -> ProviderCredential {
        let key = try P256PrivateKey(file: #require(files).providerKey)
        return try #require(
            ProviderCredential(key: key, keyID: TestFiles.keyID, teamID: TestFiles.teamID))
    }
}
