internal import Redis
internal import Telemetry
internal import Worker

/// `peal worker`: takes jobs and sends.
let workerCommand = Command(
    name: "worker", summary: "Takes campaign jobs from Redis and sends them through APNs.",
    options: RedisOptions.all + [
        Option("apps", "FILE", "The apps file: topic, environment and key of each app. Required."),
        Option(
            switch: "once", "Ends with code 0 when nothing is left to do for any worker."),
        Option("connections", "NUMBER", default: "4", "Connections to APNs for each app."),
        Option(
            "rate", "NUMBER", default: "1500",
            "Requests in any one second on one connection; 0 for no limit (load tests only)."),
        Option(
            "apns-server", "HOST:PORT",
            "Sends there, a simulator for example, instead of to the apps' servers."),
        Option(
            "apns-ca", "FILE",
            "PEM file of the roots that check APNs' certificate; the system's without it."),
        Option("audience-dir", "DIR", "The folder of file audiences; none are taken without it."),
        Option("shard-size", "NUMBER", default: "20000", "Recipients that a shard is planned for."),
        Option(
            "retain", "TIME", default: "7d",
            "Time that a campaign stays in Redis after its end, 365d at most; then it is removed."),
        Option(
            "request-timeout", "TIME", default: "30s",
            "Time without an answer after which a request's outcome is unknown."),
        Option(
            "drain-timeout", "TIME", default: "25s",
            "Time that SIGTERM leaves for answers; a second signal ends at once."),
        Option(
            "start-timeout", "TIME", default: "30s",
            "Time to wait for Redis at the start before giving up."),
        Option(
            "durability", "SETTING", default: "none",
            "none, or replicas:N: a recipient is sent to after N replicas of Redis know of it, so "
                + "that a failover to one of them doubles nobody."),
        Option(
            switch: "allow-eviction",
            "Starts although the maxmemory-policy of Redis lets it delete keys."),
        Option(
            "status-file", "FILE",
            "Says here once a second, as JSON, whether the worker is ready; see peal health."),
        Option(
            "log-level", "LEVEL", default: "info", "debug, info, warning or error; to stderr."),
    ],
    details: """
        Any number of workers share the work. A worker needs no name and keeps nothing on disk: kill
        it at any time, others take over within 25 seconds. SIGTERM and SIGINT drain it.

        Exit codes: 0 drained, 64 wrong usage, 69 Redis not reachable at the start, 70 a fault that
        the log names, 75 drained only in part, 78 configuration.
        """,
    examples: [
        ("peal worker --apps apps.json", "Sends through Apple with the keys of the apps file."),
        (
            "peal worker --apps apps.json --apns-server 127.0.0.1:2197 --apns-ca ca.pem --once",
            "Sends what is enqueued to a simulator and ends."
        ),
    ],
    run: runWorker)

private func runWorker(_ parsed: Parsed) throws -> Int32 {
    guard let path = parsed.optionalText("apps") else {
        throw Failure.configuration(
            "--apps is missing; name the apps file (an example is deploy/apps.example.json)")
    }
    let apps: AppProfiles
    do {
        apps = try AppProfiles.read(path)
    } catch {
        throw Failure.configuration(error.description)
    }
    var settings = WorkerSettings(redis: try RedisOptions.address(parsed))
    settings.namespace = try RedisOptions.namespace(parsed)
    settings.version = Version.text
    settings.once = try parsed.isOn("once")
    settings.connections = try parsed.integer("connections", in: 1...64)
    settings.ratePerConnection = try parsed.integer("rate", in: 0...1_000_000)
    settings.trustedRoots = parsed.optionalText("apns-ca")
    settings.audienceFolder = try parsed.folder("audience-dir")
    settings.shardSize = try parsed.integer("shard-size", in: 1...100_000)
    settings.retainMilliseconds =
        try parsed.duration("retain", in: WorkerOptions.retain) / 1_000_000
    settings.requestTimeoutSeconds = try seconds(parsed, "request-timeout", 1...600)
    settings.drainSeconds = try seconds(parsed, "drain-timeout", 1...600)
    settings.startSeconds = try seconds(parsed, "start-timeout", 0...3600)
    settings.allowsEviction = try parsed.isOn("allow-eviction")
    do throws(Durability.Unusable) {
        settings.durability = try Durability(parsing: parsed.optionalText("durability") ?? "none")
    } catch {
        throw parsed.wrong("durability", "is not usable", error.description)
    }
    settings.statusFile = parsed.optionalText("status-file")
    if let text = parsed.optionalText("apns-server") {
        guard let server = AppProfile.Server(text) else {
            throw parsed.wrong("apns-server", "is no server", "write host:port")
        }
        settings.server = server
    }
    guard let level = Log.Level(name: try parsed.text("log-level")) else {
        throw parsed.wrong("log-level", "is no level", "write debug, info, warning or error")
    }
    return Worker(settings: settings, apps: apps, logLevel: level).run().rawValue
}

/// Limits of the worker's options, in nanoseconds.
enum WorkerOptions {
    /// A millisecond to 365 days.
    static let retain: ClosedRange<Int64> = 1_000_000...365 * 86_400_000_000_000
}

/// A duration option in whole seconds.
private func seconds(_ parsed: Parsed, _ name: String, _ range: ClosedRange<Int>) throws -> Int {
    let second: Int64 = 1_000_000_000
    let limits = Int64(range.lowerBound) * second...Int64(range.upperBound) * second
    return Int(try parsed.duration(name, in: limits) / second)
}
