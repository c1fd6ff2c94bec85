internal import APNs
internal import APNsClient
internal import Base
internal import Crypto
internal import EventLoop
internal import TLS
internal import Telemetry

/// Sends a number of notifications through a pool as fast as it goes: the send path alone, without
/// Redis and ledger.
///
/// Distinct tokens, a real provider token, the headers of a campaign.
final class SendPath: PushSource, CredentialSource {
    private let loop: EventLoop
    private let template: PushTemplate
    private let tokens: UnsafeMutableRawPointer
    private let count: Int
    private var sent = 0
    private var ended = 0
    private var accepted = 0
    private var source: ProviderTokenSource

    /// - `payloadBytes`: length of the body.
    init(loop: EventLoop, count: Int, payloadBytes: Int, credential: ProviderCredential) {
        self.loop = loop
        self.count = count
        source = ProviderTokenSource(credential: credential)
        let frame = #"{"aps":{"alert":""}}"#
        let filler = String(repeating: "x", count: max(0, payloadBytes - frame.utf8.count))
        template = PushTemplate(
            topic: "com.example.shop", pushType: .alert, priority: 10, expiration: 1_900_000_000,
            collapseID: "bench", payload: Array(#"{"aps":{"alert":"\#(filler)"}}"#.utf8))
        tokens = .allocate(byteCount: count * 32, alignment: 16)
        var random = SeededRandom(seed: 1)
        for word in 0..<count * 4 {
            tokens.storeBytes(of: random.next(), toByteOffset: word * 8, as: UInt64.self)
        }
    }

    deinit { tokens.deallocate() }

    /// Runs to the end; CPU seconds of this process, wall seconds, and how many were accepted.
    func run(
        port: Int, context: TLSContext, connections: Int, streams: Int
    ) -> (
        cpu: Double, wall: Double, accepted: Int
    ) {
        var settings = PoolSettings.unpaced
        settings.connections = connections
        settings.streamLimit = streams
        let pool = APNsPool(
            name: "bench", host: "127.0.0.1", port: port, context: context, loop: loop,
            settings: settings, source: self, credential: self, seed: 1,
            log: Log(level: .warning))
        pool.start()
        loop.tickHandler = { [unowned self] in
            pool.tick(now: loop.now)
            if ended == count { loop.stop() }
        }
        loop.isTicking = true
        let cpu = Processes.ownCPU()
        let start = Instant.now()
        loop.run()
        let wall = Double(Instant.now() - start) / 1e9
        let used = Processes.ownCPU() - cpu
        pool.closeAll()
        return (used, wall, accepted)
    }

    func nextPush(now: Instant) -> Push? {
        guard sent < count else { return nil }
        let token = UnsafeRawBufferPointer(start: tokens + sent * 32, count: 32)
        let id = token.loadUnaligned(as: UInt64.self)
        defer { sent += 1 }
        return Push(template: template, token: token, id: (id, ~id), tag: UInt64(sent))
    }

    func pushEnded(tag: UInt64, _ outcome: PushOutcome, latency: Int64, now: Instant) {
        ended += 1
        if case .accepted = outcome { accepted += 1 }
    }

    func tokenForNewConnection(nowSeconds: Int64) -> ProviderToken? {
        source.tokenForNewConnection(at: nowSeconds)
    }
    func replacement(for held: ProviderToken, changedAt: Int64, nowSeconds: Int64) -> ProviderToken?
    {
        nil
    }
    func hold(nowSeconds: Int64) {}
    func refused(_ token: ProviderToken, nowSeconds: Int64) -> Bool { false }
}
