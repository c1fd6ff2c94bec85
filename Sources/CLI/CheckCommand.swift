internal import APNs
internal import Base
internal import Campaign
internal import JSON
internal import Worker

/// `peal check`: says everything that is wrong with job files, without Redis.
let checkCommand = Command(
    name: "check", summary: "Checks job files without Redis and reports every fault.",
    arguments: "FILE…", argumentCount: 1...10_000,
    options: [
        Option("apps", "FILE", "Apps file; with it, each job's app and environment are checked."),
        Option(switch: "json", "Print one JSON object for each file instead of lines for people."),
    ],
    details: """
        Each fault is one line: file, JSON path, what is wrong and what to do. A FILE of - is
        standard input. Exit code 0 when all jobs are good, 1 when one has a fault or can't be
        read, 78 when the apps file is wrong.
        """,
    examples: [
        (
            "peal check campaigns/newsletter.json --apps deploy/apps.example.json",
            "Checks an example and that its app exists."
        ),
        ("peal check --json - < job.json", "Checks one job for another program."),
    ],
    run: runCheck)

private func runCheck(_ parsed: Parsed) throws -> Int32 {
    var apps: AppProfiles?
    if let path = parsed.optionalText("apps") {
        do { apps = try AppProfiles.read(path) } catch {
            throw Failure.configuration(error.description)
        }
    }
    let asJSON = try parsed.isOn("json")
    var code = ExitCode.success
    for path in parsed.arguments {
        let checked = CheckedJob.read(path, apps: apps, now: WallClock.milliseconds())
        if !checked.faults.isEmpty { code = ExitCode.found }
        Terminal.print(asJSON ? checked.json.text + "\n" : checked.lines)
    }
    return code
}

/// What a check found out about one job file.
struct CheckedJob {
    let path: String
    /// The id, if it could be read.
    let id: String?
    /// Nil when the job has faults.
    let job: Job?
    let faults: [JobFault]

    /// Reads and checks a file.
    static func read(_ path: String, apps: AppProfiles?, now: Int64) -> CheckedJob {
        do {
            return CheckedJob(path: path, bytes: try FileReader.read(path), apps: apps, now: now)
        } catch {
            let fault = JobFault(path: "$", message: "\(error); check the path")
            return CheckedJob(path: path, id: nil, job: nil, faults: [fault])
        }
    }

    init(path: String, id: String?, job: Job?, faults: [JobFault]) {
        self.path = path
        self.id = id
        self.job = job
        self.faults = faults
    }

    init(path: String, bytes: [UInt8], apps: AppProfiles?, now: Int64) {
        do {
            let job = try Job.parse(bytes, now: now)
            let faults = apps?.faults(of: job) ?? []
            let good = faults.isEmpty ? job : nil
            self.init(path: path, id: job.id, job: good, faults: faults)
        } catch {
            let all = error.faults + (apps?.faults(ofApp: error.app) ?? [])
            self.init(path: path, id: error.id, job: nil, faults: all)
        }
    }

    /// One line for each fault, or one that says what the job is.
    var lines: String {
        guard let job else {
            return faults.map { "\(path): \($0.path): \($0.message)\n" }.joined()
        }
        return "\(path): good: campaign \(job.id), app \(job.app), \(job.pushType.rawValue) of "
            + "\(job.payload.count) bytes, to \(job.audience.summary)\n"
    }

    /// The same for programs.
    var json: JSONValue {
        [
            "file": .string(path), "id": id.map { .string($0) } ?? .null,
            "ok": .bool(faults.isEmpty),
            "faults": .array(
                faults.map { ["path": .string($0.path), "message": .string($0.message)] }),
        ]
    }
}
