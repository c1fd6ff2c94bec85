internal import APNs
internal import APNsClient
internal import Base
internal import Campaign
internal import EventLoop
internal import TLS

/// The sending for one app: its pool of connections and the runs that feed it.
///
/// Loop only.
///
/// Campaigns take turns with one notification each, whatever the number of their shards here; so no
/// campaign keeps another one waiting.
final class AppLane: RunLane, PushSource, CredentialSource {
    let app: String
    let profile: AppProfile
    private(set) var answers = 0
    private var built: APNsPool?
    private let ended: (Int, Int, PushOutcome, Int64) -> Void
    private var queues: [Queue] = []
    private var turn = 0
    private var latency = [Int](repeating: 0, count: LatencyBuckets.count)
    private var latencyAnswers = 0
    private var p99 = 0.05
    private var tokens: ProviderTokenSource?
    /// Refusals of a fresh provider token since the last accepted notification.
    private var vainRefusals = 0

    /// A fresh provider token was refused on two connections: another one would not help.
    var isCredentialRefused: Bool { vainRefusals >= 2 }

    /// The runs of one campaign.
    private struct Queue {
        let campaign: CampaignContext
        var runs: [(number: Int, active: ActiveRun)] = []
        var turn = 0
    }

    /// - `ended`: called with run, recipient, outcome and latency in nanoseconds.
    init(
        app: String, profile: AppProfile, shared: WorkerShared, context: TLSContext,
        loop: EventLoop, seed: UInt64,
        ended: @escaping (Int, Int, PushOutcome, Int64) -> Void
    ) {
        self.app = app
        self.profile = profile
        self.ended = ended
        tokens = shared.credentials[app].map { ProviderTokenSource(credential: $0) }
        let isPaced = shared.settings.ratePerConnection > 0
        var settings = isPaced ? PoolSettings() : PoolSettings.unpaced
        settings.connections = shared.settings.connections
        if isPaced { settings.ratePerConnection = shared.settings.ratePerConnection }
        settings.requestTimeout = Nanoseconds.seconds(shared.settings.requestTimeoutSeconds)
        let server = shared.settings.server ?? profile.server
        built = APNsPool(
            name: app, host: server.host, port: Int(server.port), context: context, loop: loop,
            settings: settings, source: self, credential: self, seed: seed, log: shared.log)
    }

    var pool: APNsPool {
        guard let built else { preconditionFailure("a lane makes its pool when it is made") }
        return built
    }

    func add(_ number: Int, _ active: ActiveRun) {
        if let place = queues.firstIndex(where: { $0.campaign === active.campaign }) {
            queues[place].runs.append((number, active))
        } else {
            queues.append(Queue(campaign: active.campaign, runs: [(number, active)]))
        }
    }

    func remove(_ number: Int) {
        for place in queues.indices.reversed() {
            queues[place].runs.removeAll { $0.number == number }
            if queues[place].runs.isEmpty { queues.remove(at: place) }
        }
    }

    /// How many marks a run of this lane should have outstanding.
    ///
    /// Campaigns share the lane's rate equally, the runs of one campaign share that campaign's
    /// part. Runs that only wait to send again need none of it.
    func markTarget(of active: ActiveRun, settings: WorkerSettings) -> Int {
        let runs =
            queues.first { $0.campaign === active.campaign }?.runs
            .count { $0.active.run.hasWork } ?? 1
        // Without a limit the most is wanted.
        let perConnection =
            settings.ratePerConnection > 0 ? Double(settings.ratePerConnection) : 1e6
        let share = perConnection * Double(settings.connections) / Double(max(1, queues.count))
        return MarkTarget.marks(ratePerSecond: share / Double(max(1, runs)), latencySeconds: p99)
    }

    /// Notes an answer's time; the 99th percentile is renewed every 1000 answers.
    func note(milliseconds: Int) {
        answers += 1
        latency[LatencyBuckets.index(milliseconds: milliseconds)] += 1
        latencyAnswers += 1
        guard latencyAnswers >= 1000 else { return }
        p99 = Double(LatencyBuckets.quantile(latency, 0.99)) / 1000
        for index in latency.indices { latency[index] = 0 }
        latencyAnswers = 0
    }

    // MARK: PushSource

    func nextPush(now: Instant) -> Push? {
        for _ in queues.indices {
            turn += 1
            if turn >= queues.count { turn = 0 }
            if let push = nextPush(of: turn, now) { return push }
        }
        return nil
    }

    private func nextPush(of place: Int, _ now: Instant) -> Push? {
        for _ in queues[place].runs.indices {
            queues[place].turn += 1
            if queues[place].turn >= queues[place].runs.count { queues[place].turn = 0 }
            let (number, active) = queues[place].runs[queues[place].turn]
            guard let recipients = active.recipients,
                let index = active.run.nextToSend(now: now)
            else { continue }
            let token = recipients.content(index)
            FailPoint.reached(recipient: token)
            return Push(
                template: active.template, token: token, id: active.campaign.identifier.make(token),
                tag: UInt64(number) << 32 | UInt64(index))
        }
        return nil
    }

    func pushEnded(tag: UInt64, _ outcome: PushOutcome, latency: Int64, now: Instant) {
        if case .accepted = outcome { vainRefusals = 0 }
        ended(Int(tag >> 32), Int(tag & 0xFFFF_FFFF), outcome, latency)
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
        let helps = tokens?.tokenAfterRefusal(of: token, at: nowSeconds) != nil
        if !helps { vainRefusals += 1 }
        return helps
    }

    func hold(nowSeconds: Int64) { tokens?.hold(at: nowSeconds) }
}
