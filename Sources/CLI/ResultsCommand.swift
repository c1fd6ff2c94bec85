internal import Base
internal import Campaign
internal import JSON
internal import JobQueue
internal import Redis

/// `peal results`: what became of each recipient of one campaign.
let resultsCommand = Command(
    name: "results", summary: "Lists the recipients of a campaign with what became of each one.",
    arguments: "ID", argumentCount: 1...1,
    options: RedisOptions.all + [
        Option(
            "outcome", "NAME,…", "Lists only these classes: \(ResultsText.classNames)."),
        Option(
            "format", "FORMAT", default: "ndjson",
            "ndjson (one JSON object on each line) or csv (RFC 4180, with a header)."),
    ],
    details: """
        Each recipient has token (hexadecimal; the beginning of the text where valid is false, since
        it is no token), valid, outcome (its class), reason (empty where there is none), shard and
        position in the shard. It may run at any moment, also while workers send, and reads a few
        windows at a time, so that neither memory nor Redis notices. Exit code 1 when some
        recipients cannot be read: the last line on standard error says which.
        """,
    examples: [
        ("peal results autumn-sale --outcome unknown", "Who may have got it or not."),
        ("peal results autumn-sale --format csv > results.csv", "Everybody, for a spreadsheet."),
    ],
    run: runResults)

private func runResults(_ parsed: Parsed) throws -> Int32 {
    let store = try RedisOptions.store(parsed)
    let id = parsed.arguments[0]
    let outcomes = try ResultsText.outcomes(parsed)
    guard let format = ResultsText.Format(rawValue: try parsed.text("format")) else {
        throw parsed.wrong("format", "is no format", "write ndjson or csv")
    }
    guard let report = try RedisOptions.calling({ try store.report(id) }) else {
        throw Failure(code: ExitCode.found, "there is no campaign \(id); peal status lists them")
    }
    if let why = ResultsText.refusal(report) { throw Failure(code: ExitCode.found, why) }
    var output = OutputBuffer()
    if format == .csv { output.add(ResultsText.csvHeader) }
    var seen = 0
    var faults = 0
    // One that was cancelled before it was planned has nobody in it.
    let shards = report.total > 0 ? Int(report.fields["shards"] ?? "") ?? 0 : 0
    for shard in 0..<shards {
        do {
            seen += try RedisOptions.calling {
                try store.results(id, shard: shard, outcomes: outcomes) { result in
                    output.add(ResultsText.line(result, format))
                }
            }
        } catch let error as ShardUnreadable {
            faults += 1
            Terminal.complain("peal results: shard \(error.shard) of \(id): \(error)\n")
        }
        if output.isClosed { break }
    }
    output.flush()
    if output.isClosed { return try output.end() }
    if seen != report.total {
        Terminal.complain(
            "peal results: \(report.total - seen) of \(report.total) recipients of \(id) cannot be "
                + "read, their keys are not in Redis; peal status \(id) says more\n")
        faults += 1
    }
    return faults == 0 ? ExitCode.success : ExitCode.found
}

/// Forms of a recipient's result.
enum ResultsText {
    enum Format: String { case ndjson, csv }

    static let csvHeader = Array("token,valid,outcome,reason,shard,position\r\n".utf8)

    static let classNames = RecipientClass.allCases.map(\.rawValue).joined(separator: ", ")

    /// The classes that the option names, or all of them.
    static func outcomes(_ parsed: Parsed) throws(Failure) -> Set<RecipientClass> {
        guard parsed.has("outcome") else { return Set(RecipientClass.allCases) }
        var outcomes: Set<RecipientClass> = []
        for name in parsed.texts("outcome") {
            guard let outcome = RecipientClass(rawValue: name) else {
                throw parsed.wrong(
                    "outcome",
                    "holds \"\(name)\", which is no class"
                        + Nearest.hint(for: name, among: RecipientClass.allCases.map(\.rawValue)),
                    "write some of \(classNames), with commas and no spaces")
            }
            outcomes.insert(outcome)
        }
        guard !outcomes.isEmpty else {
            throw parsed.wrong("outcome", "names no class", "write some of \(classNames)")
        }
        return outcomes
    }

    /// Why a campaign in this state has no results, if so.
    static func refusal(_ report: CampaignReport) -> String? {
        switch report.state {
        case "planning":
            "\(report.id) is still planned and has no results; try again when peal status "
                + "\(report.id) says running"
        case "failed":
            "\(report.id) could not be planned (\(report.fields["reason"] ?? "")); nothing was "
                + "sent to anybody"
        case "retiring":
            "\(report.id) ended longer ago than the workers' --retain and is being removed"
        default: nil
        }
    }

    /// One line with its end.
    static func line(_ result: RecipientResult, _ format: Format) -> [UInt8] {
        let token =
            result.isToken
            ? Hex.encode(result.content) : String(decoding: result.content, as: UTF8.self)
        switch format {
        case .ndjson:
            let object: JSONValue = .object([
                "token": .string(token), "valid": .bool(result.isToken),
                "outcome": .string(result.outcome.rawValue), "reason": .string(result.reason),
                "shard": .integer(Int64(result.shard)),
                "position": .integer(Int64(result.position)),
            ])
            return object.serialized() + [0x0A]
        case .csv:
            let fields = [
                token, String(result.isToken), result.outcome.rawValue, result.reason,
                String(result.shard), String(result.position),
            ]
            return Array((fields.map(csv).joined(separator: ",") + "\r\n").utf8)
        }
    }

    /// A field of RFC 4180: in quotes where it holds one, a comma or the end of a line.
    static func csv(_ field: String) -> String {
        guard field.utf8.contains(where: { [0x22, 0x2C, 0x0A, 0x0D].contains($0) }) else {
            return field
        }
        var quoted = "\""
        for scalar in field.unicodeScalars {
            if scalar == "\"" { quoted += "\"" }
            quoted.unicodeScalars.append(scalar)
        }
        return quoted + "\""
    }
}

/// Collects output for standard output, so that not every line is a system call.
struct OutputBuffer {
    /// Bytes that are written at once.
    static let limit = 64 * 1024

    private var bytes: [UInt8] = []
    private var trouble: Terminal.Trouble?

    /// Nothing more can be written.
    var isClosed: Bool { trouble != nil }

    /// Adds a line; false when nothing more can be written.
    @discardableResult
    mutating func add(_ line: [UInt8]) -> Bool {
        bytes += line
        if bytes.count >= OutputBuffer.limit { flush() }
        return !isClosed
    }

    mutating func flush() {
        guard !isClosed else { return }
        trouble = Terminal.print(bytes: bytes)
        bytes.removeAll(keepingCapacity: true)
    }

    /// The exit code once nothing more can be written.
    func end() throws(Failure) -> Int32 {
        // Whoever reads has seen enough, `head` for example.
        guard let trouble, !trouble.isReaderGone else { return ExitCode.success }
        throw Failure(code: ExitCode.found, "the output cannot be written: \(trouble.text)")
    }
}
