internal import Base
internal import Campaign
internal import JobQueue
internal import Redis
internal import Worker

/// `peal enqueue`: puts jobs on the intake list, as a backend does.
let enqueueCommand = Command(
    name: "enqueue", summary: "Checks job files and puts them on the intake list.",
    arguments: "FILE…", argumentCount: 1...1000,
    options: RedisOptions.all + [
        Option("apps", "FILE", "Apps file; with it, each job's app and environment are checked.")
    ],
    details: """
        All files are checked before the first is enqueued; one fault and none is (exit code 1). A
        FILE of - is standard input. The same job twice runs once.
        """,
    examples: [
        ("peal enqueue campaigns/newsletter.json", "Enqueues an example."),
        (
            "redis-cli -x LPUSH peal:jobs < campaigns/newsletter.json",
            "The same without Peal, unchecked until a worker takes it."
        ),
    ],
    run: runEnqueue)

private func runEnqueue(_ parsed: Parsed) throws -> Int32 {
    var apps: AppProfiles?
    if let path = parsed.optionalText("apps") {
        do { apps = try AppProfiles.read(path) } catch {
            throw Failure.configuration(error.description)
        }
    }
    let now = WallClock.milliseconds()
    let checked = parsed.arguments.map { CheckedJob.read($0, apps: apps, now: now) }
    let bad = checked.filter { $0.job == nil }
    guard bad.isEmpty else {
        for job in bad { Terminal.complain(job.lines) }
        return ExitCode.found
    }
    let store = try RedisOptions.store(parsed)
    for job in checked.compactMap(\.job) {
        try RedisOptions.calling { try store.enqueue(job.canonical) }
        Terminal.print("\(job.id): enqueued, to \(job.audience.summary)\n")
    }
    return ExitCode.success
}
