internal import JSON
internal import JobQueue
internal import Redis

/// `peal audit`: recomputes all counters from the ledgers.
let auditCommand = Command(
    name: "audit", summary: "Recomputes counters from the ledgers and reports any difference.",
    arguments: "[ID…]", argumentCount: 0...1000,
    options: RedisOptions.all + [
        Option(switch: "json", "Print one JSON object for each campaign.")
    ],
    details: """
        Without an ID all campaigns are audited. It may run at any moment, also while workers send:
        each shard is read at one moment. Shards that say they run but hold no lease are handed to
        the recovery. Exit code 0 when all agrees, 1 on any difference.
        """,
    examples: [("peal audit", "Audits every campaign.")],
    run: runAudit)

private func runAudit(_ parsed: Parsed) throws -> Int32 {
    let store = try RedisOptions.store(parsed)
    let asJSON = try parsed.isOn("json")
    var code = ExitCode.success
    let ids =
        try parsed.arguments.isEmpty
        ? RedisOptions.calling { try store.campaigns() } : parsed.arguments
    for id in ids {
        guard try RedisOptions.calling({ try store.report(id) }) != nil else {
            // Removed since they were listed.
            if parsed.arguments.isEmpty { continue }
            Terminal.complain("peal audit: there is no campaign \(id); peal status lists them\n")
            code = ExitCode.found
            continue
        }
        let audit = try RedisOptions.calling { try store.audit(id) }
        if !audit.differences.isEmpty { code = ExitCode.found }
        if asJSON {
            let json: JSONValue = .object([
                "id": .string(id), "ok": .bool(audit.differences.isEmpty),
                "shards": .integer(Int64(audit.shards)),
                "recipients": .integer(Int64(audit.recipients)),
                "repaired": .integer(Int64(audit.repaired)),
                "differences": .array(audit.differences.map { .string($0) }),
            ])
            Terminal.print(json.text + "\n")
            continue
        }
        Terminal.print(
            "\(id): \(audit.recipients) recipients in \(audit.shards) shards, "
                + (audit.differences.isEmpty ? "ledger = counters\n" : "DIFFERENT\n"))
        for difference in audit.differences { Terminal.print("  \(difference)\n") }
        if audit.repaired > 0 {
            Terminal.print(
                "  \(audit.repaired) shards without a lease were handed to the recovery\n")
        }
    }
    return code
}
