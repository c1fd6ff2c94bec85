import Base
import JSON
import Redis
import TestKit

/// Workers that send campaigns under both policies while a test disturbs them.
///
/// Redis keeps every confirmed write (`appendfsync always`), so that what a worker was told holds.
/// Workers reach Redis and the simulator through proxies; the test and the audits do not.
final class ChaosRun {
    struct Campaign {
        let name: String
        /// `resend` or `skip`.
        let policy: String
        let total: Int
        /// Marks that were outstanding when a worker died or lost its lease.
        var marks = 0
    }

    /// Sizes of a run.
    struct Sizes {
        /// Recipients of each of the two campaigns.
        var recipients = 15_000
        var workers = 3
        var connections = 2
        /// Requests per second and connection.
        var rate = 600
        var shardSize = 1500
        var latency = "20ms"
    }

    static let classes = [
        "untouched", "in_flight", "deferred", "accepted", "gone", "quarantined", "rejected",
        "skipped", "expired", "cancelled", "unknown",
    ]

    let fault: String
    let sizes: Sizes
    let fleet: Fleet
    let watch: Watch
    private(set) var campaigns: [Campaign] = []
    /// The workers that are to be at work.
    private(set) var workers: [ChildProcess] = []
    /// Those that a test has ended.
    private(set) var former: [ChildProcess] = []
    /// Process ids of workers that were stopped in their tracks at some time.
    private(set) var frozen: Set<Int32> = []

    let proxy: TCPProxy
    let apnsProxy: TCPProxy

    /// Starts Redis, simulator and watch, enqueues campaigns `again` and `once`; no workers yet.
    ///
    /// - `fault`: the name in the table of figures.
    init(
        _ fault: String, _ sizes: Sizes = Sizes(), names: [String] = ["again", "once"],
        redisOptions: [String] = []
    ) async throws {
        self.fault = fault
        self.sizes = sizes
        fleet = try await Fleet(
            simulator: [
                "--latency", sizes.latency, "--gone", "2%", "--too-many", "0.5%", "--seed", "11",
            ], appendOnly: true,
            redisOptions: ["--slowlog-log-slower-than", "10000"] + redisOptions, isProxied: true)
        guard let proxy = fleet.proxy, let apnsProxy = fleet.apnsProxy else {
            throw TestKitError("a fleet with proxies has none")
        }
        self.proxy = proxy
        self.apnsProxy = apnsProxy
        watch = Watch(fleet.url)
        for (name, policy) in zip(names, ["resend", "skip"]) {
            try enqueue(name, policy: policy, sizes.recipients)
        }
    }

    deinit { watch.stop() }

    func enqueue(_ name: String, policy: String, _ count: Int, _ fields: String = "") throws {
        try fleet.enqueue(
            name, count,
            #""on_unknown": "\#(policy)", "retry": {"base_delay_ms": 50}"# + fields)
        campaigns.append(Campaign(name: name, policy: policy, total: count))
    }

    /// Starts a worker, beside those that run.
    @discardableResult
    func startWorker(environment: [String: String] = [:]) throws -> ChildProcess {
        let worker = try fleet.worker(
            [
                "--connections", "\(sizes.connections)", "--rate", "\(sizes.rate)", "--shard-size",
                "\(sizes.shardSize)", "--request-timeout", "5s", "--status-file",
                fleet.folder.file("status-\(workers.count + former.count).json"),
            ], environment: environment)
        workers.append(worker)
        return worker
    }

    /// Starts the workers and waits until each campaign has got somewhere.
    func begin() async throws {
        for _ in 0..<sizes.workers { try startWorker() }
        try await reach(0.1)
    }

    /// Waits until this share of all recipients has been accepted.
    func reach(_ share: Double, within limit: Duration = .seconds(60)) async throws {
        let wanted = Double(campaigns.reduce(0) { $0 + $1.total }) * share
        try await eventually("\(share) of the recipients are accepted", within: limit) {
            Double((try? accepted()) ?? 0) > wanted
        }
    }

    /// Accepted recipients of all campaigns so far.
    func accepted() throws -> Int {
        try campaigns.reduce(0) { try $0 + (fleet.counters($1.name)["accepted"] ?? 0) }
    }

    /// Marks outstanding now, of all campaigns.
    func inFlight() throws -> Int {
        try campaigns.reduce(0) { try $0 + (fleet.counters($1.name)["in_flight"] ?? 0) }
    }

    // MARK: Faults

    /// Kills the worker with the most marks, with SIGKILL; a supervisor starts another one at once.
    func kill(_ victim: ChildProcess? = nil, replaced: Bool = true) async throws {
        let worker = try victim ?? busiest()
        worker.send(9)
        try await hasDied(worker)
        if replaced { try startWorker() }
    }

    /// The worker with the most marks outstanding.
    func busiest(among workers: [ChildProcess]? = nil) throws -> ChildProcess {
        let workers = workers ?? self.workers
        let marks = try workers.map { worker in
            try shards(of: worker.processID).reduce(0) { $0 + $1.inFlight }
        }
        let place = marks.indices.max { marks[$0] < marks[$1] }
        guard let place else { throw TestKitError("no worker runs") }
        return workers[place]
    }

    /// Notes what a worker that ended by itself, or by a signal, has left behind.
    func hasDied(_ worker: ChildProcess) async throws {
        try await worker.wait()
        workers.removeAll { $0 === worker }
        former.append(worker)
        try noteLoss(of: worker)
    }

    /// Stops a worker in its tracks (SIGSTOP); what it has in flight counts as lost if it stays so
    /// past its lease.
    func freeze(_ worker: ChildProcess) {
        frozen.insert(worker.processID)
        worker.send(19)
    }

    /// Notes the marks that a dead or frozen worker has outstanding, and watches its shards until
    /// they are taken back.
    func noteLoss(of worker: ChildProcess) throws { watch.died(try noteMarks(of: worker)) }

    /// Notes the marks of a worker that may lose its shards; its shards.
    @discardableResult
    func noteMarks(of worker: ChildProcess) throws -> [Shard] {
        proxy.settle()
        let shards = try shards(of: worker.processID)
        for (place, campaign) in campaigns.enumerated() {
            campaigns[place].marks += shards.filter { $0.campaign == campaign.name }.reduce(0) {
                $0 + $1.inFlight
            }
        }
        return shards
    }

    /// A running shard of a worker.
    struct Shard: Hashable, Sendable {
        let campaign: String
        let number: Int
        let owner: String
        let inFlight: Int

        var key: String { "peal:campaign:\(campaign):shard:\(number)" }
    }

    /// The shards that a process holds.
    func shards(of process: Int32) throws -> [Shard] {
        let connection = try fleet.connection()
        var found: [Shard] = []
        for campaign in campaigns {
            let key = "peal:campaign:\(campaign.name)"
            let count = try connection.command("HGET", key, "shards").integer ?? 0
            for number in 0..<Int(count) {
                let reply = try connection.command(
                    "HMGET", "\(key):shard:\(number)", "state", "owner", "counts")
                let fields = (reply.array ?? []).map { $0.string ?? "" }
                // A worker's name is host, process id and a random part.
                guard fields.count == 3, fields[0] == "running",
                    fields[1].split(separator: "-").dropLast().last == "\(process)"
                else { continue }
                let counts = fields[2].split(separator: ",").map { Int($0) ?? 0 }
                found.append(
                    Shard(
                        campaign: campaign.name, number: number, owner: fields[1],
                        inFlight: counts[1]))
            }
        }
        return found
    }

    /// Drains a worker with SIGTERM and starts another one; its exit code.
    func restart(_ worker: ChildProcess) async throws -> ChildProcess.End {
        worker.send(15)
        let end = try await worker.wait(within: .seconds(40))
        workers.removeAll { $0 === worker }
        former.append(worker)
        try startWorker()
        return end
    }

    /// Lets time pass while a fault lasts.
    func pass(_ length: Duration) async throws {
        let end = ContinuousClock.now + length
        try await eventually("\(length) have passed", within: length + .seconds(10)) {
            ContinuousClock.now >= end
        }
    }

    /// The digest that calls of a script name.
    func digest(_ script: RedisScript) throws -> String {
        let reply = try fleet.connection().command([
            Array("SCRIPT".utf8), Array("LOAD".utf8), script.source,
        ])
        return reply.string ?? ""
    }

    /// Cuts the connection exactly when a reply is due, and waits until that has come about.
    func cut(_ cut: TCPProxy.Cut) async throws {
        let before = proxy.cuts
        proxy.arm(cut)
        try await eventually("a reply is cut off") { proxy.cuts > before }
    }

    /// Why the first worker is not ready because of Redis.
    func redisFault() -> String? {
        let text = fleet.folder.text("status-0.json")
        return (try? JSONValue.parse(Array(text.utf8)))?["reasons"]?["redis"]?.string
    }

    /// What the logs of all workers say about an event, in lines.
    func lines(_ event: String) -> [Substring] {
        (workers + former).flatMap { $0.errors.split(separator: "\n") }.filter {
            $0.contains("\"event\":\"\(event)\"")
        }
    }

    /// Waits for the end of all campaigns, ends the workers and judges.
    func finish(
        states: Set<String> = ["completed"], within limit: Duration = .seconds(120)
    ) async throws -> ChaosVerdict {
        try await eventually("all campaigns end", within: limit) {
            try campaigns.allSatisfy {
                states.contains((try fleet.state($0.name)) ?? "")
            }
        }
        for worker in workers { worker.send(15) }
        var ends: [ChildProcess.End] = []
        for worker in workers { ends.append(try await worker.wait(within: .seconds(40))) }
        watch.stop()
        return try await ChaosVerdict(self, ends: ends)
    }
}
