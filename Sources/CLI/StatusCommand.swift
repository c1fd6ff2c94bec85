internal import Base
internal import Campaign
internal import JSON
internal import JobQueue
internal import Redis

/// `peal status`: what became of the recipients so far.
let statusCommand = Command(
    name: "status", summary: "Shows campaigns: state, progress and the account of recipients.",
    arguments: "[ID]", argumentCount: 0...1,
    options: RedisOptions.all + [
        Option(switch: "json", "Print one JSON object for each campaign."),
        Option(
            switch: "watch",
            "Show progress until the campaign (or all of them) has ended; code 1 when one is "
                + "paused, failed or inconsistent."
        ),
        Option("interval", "TIME", default: "500ms", "Time between two looks of --watch."),
    ],
    details: """
        The JSON object has id, state, reason, total, one number for each class of recipients
        (accepted, gone, quarantined, rejected, skipped, expired, cancelled, unknown, deferred,
        in_flight, untouched), retries, rate (recipients that ended per second, skipped ones
        too, since the last look or on average), reasons, and not_sent: whom a pause or a cancel
        keeps from being sent to (untouched, deferred and cancelled). The classes add up to total.
        """,
    examples: [
        ("peal status", "Every campaign with its account."),
        ("peal status autumn-sale --watch", "A progress bar with rate and time left."),
        ("peal status autumn-sale --json", "For another program."),
    ],
    run: runStatus)

private func runStatus(_ parsed: Parsed) throws -> Int32 {
    let store = try RedisOptions.store(parsed)
    let asJSON = try parsed.isOn("json")
    let watches = try parsed.isOn("watch")
    let interval = try parsed.duration("interval", in: 50_000_000...60_000_000_000)
    var progress = Progress(isTerminal: Terminal.isInteractive)
    var isFirst = true
    while true {
        let ids =
            try parsed.arguments.isEmpty
            ? RedisOptions.calling { try store.campaigns() } : parsed.arguments
        var reports: [CampaignReport] = []
        for id in ids {
            guard let report = try RedisOptions.calling({ try store.report(id) }) else {
                // Removed since they were listed.
                if parsed.arguments.isEmpty { continue }
                throw Failure(
                    code: ExitCode.found, "there is no campaign \(id); peal status lists them")
            }
            reports.append(report)
        }
        if !watches {
            if reports.isEmpty && !asJSON {
                Terminal.print("no campaigns yet; peal enqueue FILE\n")
            }
            for report in reports {
                Terminal.print(
                    asJSON
                        ? StatusText.json(report, rate: nil).text + "\n" : StatusText.full(report))
            }
            return ExitCode.success
        }
        let now = Instant.now()
        for report in reports {
            let rate = progress.rate(report, now)
            Terminal.print(
                asJSON
                    ? StatusText.json(report, rate: rate).text + "\n"
                    : progress.line(report, rate, isLast: StatusText.isEnded(report)))
        }
        if !reports.isEmpty, reports.allSatisfy(StatusText.isEnded) {
            if !asJSON { for report in reports { Terminal.print(StatusText.full(report)) } }
            let isDone = reports.allSatisfy { ["completed", "cancelled"].contains($0.state) }
            return isDone ? ExitCode.success : ExitCode.found
        }
        if reports.isEmpty && isFirst && !asJSON { Terminal.print("no campaigns yet; waiting\n") }
        isFirst = false
        Thread.sleep(nanoseconds: interval)
    }
}

/// Forms of a campaign's report.
enum StatusText {
    static func isEnded(_ report: CampaignReport) -> Bool {
        ["completed", "cancelled", "failed", "paused", "inconsistent", "retiring"].contains(
            report.state)
    }

    /// One JSON object; its fields are a contract.
    static func json(_ report: CampaignReport, rate: Double?) -> JSONValue {
        var object: [String: JSONValue] = [
            "id": .string(report.id), "state": .string(report.state),
            "reason": .string(report.fields["reason"] ?? ""),
            "total": .integer(Int64(report.total)),
            "not_sent": .integer(Int64(report.notSent)),
            "retries": .integer(Int64(report.counters["retries"] ?? 0)),
            "rate": .integer(Int64((rate ?? averageRate(report)).rounded())),
            "reasons": .object(report.reasons.mapValues { .integer(Int64($0)) }),
        ]
        for recipientClass in RecipientClass.allCases {
            object[recipientClass.rawValue] = .integer(
                Int64(report.classes[recipientClass, default: 0]))
        }
        return .object(object)
    }

    /// For people: state, every class that is not empty, reasons, and the sum.
    static func full(_ report: CampaignReport) -> String {
        var text = "\(report.id): \(report.state)"
        if let reason = report.fields["reason"], !reason.isEmpty { text += " (\(reason))" }
        text += "\n"
        if let meaning = meaning(report.state) { text += "  \(meaning)\n" }
        for recipientClass in RecipientClass.allCases {
            let count = report.classes[recipientClass, default: 0]
            if count > 0 { text += row(recipientClass.rawValue, count) }
        }
        text += row("total", report.total)
        if ["paused", "cancelling", "cancelled"].contains(report.state) {
            text += row("not sent", report.notSent)
        }
        let reasons = report.reasons.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        if !reasons.isEmpty {
            text +=
                "  reasons: " + reasons.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
                + "\n"
        }
        let retries = report.counters["retries"] ?? 0
        if retries > 0 { text += "  retries: \(retries)\n" }
        let rate = averageRate(report)
        if rate > 0 { text += "  rate: \(Int(rate.rounded()))/s on average\n" }
        return text
    }

    /// What a state means whose name does not say it.
    static func meaning(_ state: String) -> String? {
        switch state {
        case "cancelling":
            "nothing more is sent; what is on the wire is still answered and counted, then it is "
                + "cancelled"
        case "inconsistent":
            "somebody removed keys of it from Redis: those in_flight, deferred or untouched below "
                + "may have got it or not; nothing more is sent"
        case "retiring":
            "it ended longer ago than the workers' --retain; its keys are being removed"
        default: nil
        }
    }

    private static func row(_ name: String, _ count: Int) -> String {
        let number = grouped(count)
        let gap = String(repeating: " ", count: max(1, 26 - name.count - number.count))
        return "  \(name)\(gap)\(number)\n"
    }

    /// `1234567` as `1,234,567`.
    static func grouped(_ number: Int) -> String {
        var text = ""
        for (index, digit) in String(number).reversed().enumerated() {
            if index > 0, index % 3 == 0, digit != "-" { text.append(",") }
            text.append(digit)
        }
        return String(text.reversed())
    }

    /// Recipients that are terminal.
    static func ended(_ report: CampaignReport) -> Int { report.total - report.remaining }

    /// Ended recipients per second between the end of planning and the end, or now.
    static func averageRate(_ report: CampaignReport) -> Double {
        guard let start = report.fields["planned_ms"].flatMap({ Int64($0) }) else { return 0 }
        let end = report.fields["finished_ms"].flatMap { Int64($0) } ?? WallClock.milliseconds()
        return Double(ended(report)) * 1000 / Double(max(end - start, 1))
    }
}
