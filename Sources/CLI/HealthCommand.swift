internal import Base
internal import JSON
internal import Worker

/// `peal health`: whether a worker on this machine is ready, for exec probes.
let healthCommand = Command(
    name: "health", summary: "Says whether a worker is ready, from its status file.",
    options: [
        Option("status-file", "FILE", "The file named by the worker's --status-file. Required."),
        Option(
            "max-age", "TIME", default: "10s",
            "A file that was written longer ago than this is from a worker that hangs or ended."),
    ],
    details: """
        Exit code 0 when the worker is ready; 1 with the reasons on one line of standard error when
        it is not, or when the file is old, missing or not readable. It asks nobody but the file.
        """,
    examples: [
        ("peal health --status-file /run/peal/status.json", "A readiness probe of a container.")
    ],
    run: runHealth)

private func runHealth(_ parsed: Parsed) throws -> Int32 {
    let path = try parsed.text("status-file")
    let maxAge = try parsed.duration("max-age", in: 1_000_000_000...3_600_000_000_000)
    let bytes: [UInt8]
    do { bytes = try FileReader.read(path) } catch {
        throw Failure(
            code: ExitCode.found, "not ready: \(error); is it the worker's --status-file?")
    }
    if let reason = HealthText.fault(
        bytes, path: path, maxAgeMilliseconds: maxAge / 1_000_000, now: WallClock.milliseconds())
    {
        throw Failure(code: ExitCode.found, "not ready: \(reason)")
    }
    Terminal.print("ready\n")
    return ExitCode.success
}

/// What a status file says.
enum HealthText {
    /// Why the worker is not ready, in one line; nil when it is.
    static func fault(
        _ bytes: [UInt8], path: String, maxAgeMilliseconds: Int64, now: Int64
    ) -> String? {
        guard let json = try? JSONValue.parse(bytes), let written = json["at_ms"]?.integer,
            let reasons = json["reasons"]?.object
        else { return "\(path) is no status file of a worker" }
        // The clock may have been set back, so that the file seems to be from the future.
        let age = now - written
        guard age.magnitude <= maxAgeMilliseconds.magnitude else {
            return "\(path) is \(age / 1000) s old; the worker hangs or has ended"
        }
        if json["ready"] == .bool(true) { return nil }
        let texts = JSONValue.sorted(reasons.keys).map { "\($0): \(reasons[$0]?.string ?? "")" }
        let line = texts.isEmpty ? "without a reason" : texts.joined(separator: "; ")
        return String(line.map { $0.isNewline ? " " : $0 })
    }
}
