import Glibc
import JSON
import Redis
import TestKit

/// The account of a run: the simulator's record, the ledgers, the counters and the deactivation
/// list, compared recipient by recipient.
struct ChaosVerdict {
    /// The account of one campaign.
    struct Account {
        let name: String
        let policy: String
        let total: Int
        /// Marks outstanding at deaths and requests without an answer: as many may be sent twice,
        /// or be unknown.
        let inDoubt: Int
        /// How many recipients are in each class, by the ledger.
        var classes: [String: Int] = [:]
        /// Neither accepted, nor gone, nor in a class that says why.
        var lost = 0
        /// Acceptances beyond the first of each recipient.
        var doubled = 0
        /// Events on the deactivation list.
        var events = 0

        var unknown: Int { classes["unknown", default: 0] }
        var accepted: Int { classes["accepted", default: 0] }
    }

    let requests: Requests
    private(set) var accounts: [Account] = []
    /// What must not be, in sentences.
    private(set) var violations: [String] = []
    /// The figures of the run, a line for each campaign.
    private(set) var table: [String] = []

    /// - `ends`: how the last workers ended.
    init(_ run: ChaosRun, ends: [ChildProcess.End]) async throws {
        let fleet = run.fleet
        fleet.simulator.send(15)
        try await fleet.simulator.wait()
        requests = Requests(
            try fleet.folder.bytes("record"), campaigns: run.campaigns.map(\.name))
        let seen = run.watch.seen
        violations += seen.differences.map { "an audit found: \($0)" }
        if seen.audits == 0 { violations.append("no audit was made") }
        if ends.contains(where: { $0 != .exit(0) }) {
            violations.append("the last workers ended with \(ends)")
        }
        // What no outage may lead to.
        for event in ["worker_fault", "loop_hung", "commit_refused", "shard_unusable"] {
            // A loop that was frozen with its process has hung indeed, and is said to have.
            let lines = run.lines(event).filter { line in
                event != "loop_hung" || !run.frozen.contains { line.contains("-\($0)-") }
            }
            violations += lines.prefix(3).map { "a worker said: \($0)" }
        }
        let audit = try await fleet.peal(["audit"])
        if audit.end != .exit(0) { violations.append("the last audit found: \(audit.output)") }
        try lookForLeftovers(fleet)
        let gap = requests.longestGap / 1000
        let recovery = seen.recoveries.max().map { Double($0) / 1e9 }
        if let recovery, recovery > 25 {
            violations.append("a recovery took \(recovery) s, 25 at most")
        }
        for (place, campaign) in run.campaigns.enumerated() {
            let account = try await judge(campaign, place, fleet)
            accounts.append(account)
            table.append(
                "\(run.fault), \(account.policy): \(account.total) recipients, "
                    + "lost \(account.lost), doubled \(account.doubled), unknown "
                    + "\(account.unknown) (in doubt \(account.inDoubt)), cancelled "
                    + "\(account.classes["cancelled", default: 0]), longest gap "
                    + "\(ChaosVerdict.tenths(gap)) s, recovery "
                    + (recovery.map { ChaosVerdict.tenths($0) + " s" } ?? "none")
                    + ", audits \(seen.audits)")
        }
        for line in table { ChaosVerdict.say(line) }
        for line in violations { ChaosVerdict.say("VIOLATION: \(run.fault): \(line)") }
    }

    /// Prints a line at once, also into a pipe.
    static func say(_ line: String) {
        print("chaos: \(line)")
        fflush(nil)
    }

    static func tenths(_ value: Double) -> String {
        "\(Int(value * 10) / 10).\(Int(value * 10) % 10)"
    }

    private mutating func lookForLeftovers(_ fleet: Fleet) throws {
        let lengths = [
            ("leases", "ZCARD"), ("deferred", "ZCARD"), ("open", "HLEN"), ("held", "HLEN"),
            ("ring", "LLEN"), ("plans", "LLEN"), ("jobs", "LLEN"), ("dead", "LLEN"),
        ]
        for (key, command) in lengths {
            let length = try fleet.redis.command(command, "peal:\(key)").integer ?? 0
            if length != 0 { violations.append("peal:\(key) still holds \(length)") }
        }
        let taken = try fleet.redis.command("KEYS", "peal:claims:*").array ?? []
        if !taken.isEmpty { violations.append("jobs are left in \(taken.map(\.string))") }
    }

    private mutating func judge(
        _ campaign: ChaosRun.Campaign, _ place: Int, _ fleet: Fleet
    ) async throws -> Account {
        let counters = try fleet.counters(campaign.name)
        let inDoubt = campaign.marks + (counters["unanswered"] ?? 0)
        var account = Account(
            name: campaign.name, policy: campaign.policy, total: campaign.total, inDoubt: inDoubt)
        var accepted = [UInt8](repeating: 0, count: campaign.total)
        var gone = [Bool](repeating: false, count: campaign.total)
        for line in requests.lines where line.campaign == place && line.index < campaign.total {
            if line.status == 200 { accepted[line.index] += 1 }
            if line.status == 410 { gone[line.index] = true }
        }
        account.doubled = accepted.reduce(0) { $0 + max(0, Int($1) - 1) }
        func violation(_ text: String) { violations.append("\(campaign.name): \(text)") }

        let outcomes = try await outcomes(campaign, fleet)
        if outcomes.contains("") { violation("some recipients are not in the results") }
        var wrong: [String: Int] = [:]
        for index in 0..<campaign.total {
            let outcome = outcomes[index]
            account.classes[outcome, default: 0] += 1
            switch outcome {
            case "accepted": if accepted[index] == 0 { wrong["accepted and never sent"] = index }
            case "gone": if !gone[index] { wrong["gone without a 410"] = index }
            case "unknown": break
            default:
                if accepted[index] > 0 { wrong["\(outcome) but accepted"] = index }
                if gone[index] { wrong["\(outcome) but answered 410"] = index }
            }
            let isSettled = ["accepted", "gone", "unknown", "cancelled"].contains(outcome)
            if !isSettled { account.lost += 1 }
            if outcome == "accepted", gone[index] { wrong["accepted but answered 410"] = index }
        }
        for (text, index) in wrong { violation("recipient \(index) is \(text)") }
        if account.lost > 0 { violation("\(account.lost) recipients are lost") }
        for name in ChaosRun.classes
        where account.classes[name, default: 0] != counters[name] ?? 0 {
            violation(
                "\(account.classes[name, default: 0]) in the ledger are \(name), the counter says "
                    + "\(counters[name] ?? 0)")
        }
        if let poison = counters["reason:Poison"] { violation("\(poison) are put aside") }
        judgePolicy(account, campaign, counters)
        account.events = try judgeEvents(campaign, outcomes, fleet)
        return account
    }

    /// Doubled and unknown, by the policy.
    private mutating func judgePolicy(
        _ account: Account, _ campaign: ChaosRun.Campaign, _ counters: [String: Int]
    ) {
        let (name, inDoubt) = (campaign.name, account.inDoubt)
        if campaign.policy == "skip" {
            if account.doubled > 0 { violations.append("\(name): \(account.doubled) doubled") }
            if account.unknown > inDoubt {
                violations.append("\(name): \(account.unknown) unknown, \(inDoubt) at most")
            }
            return
        }
        if account.doubled > inDoubt {
            violations.append("\(name): \(account.doubled) doubled, \(inDoubt) at most")
        }
        // Only who was without an answer twice may end so; deaths alone never do it. A cancel ends
        // those in flight.
        let isCancelled = account.classes["cancelled", default: 0] > 0
        let most = isCancelled ? inDoubt : (counters["unanswered"] ?? 0) / 2
        if account.unknown > most {
            violations.append("\(name): \(account.unknown) unknown, \(most) at most")
        }
    }

    /// What became of each recipient, by `peal results`.
    private func outcomes(_ campaign: ChaosRun.Campaign, _ fleet: Fleet) async throws -> [String] {
        let results = try await fleet.peal(["results", campaign.name, "--format", "csv"])
        guard results.end == .exit(0) else {
            throw TestKitError("peal results: \(results.errors)")
        }
        var outcomes = [String](repeating: "", count: campaign.total)
        for line in Array(results.output.utf8).split(separator: 0x0A).dropFirst() {
            let fields = line.split(separator: 0x2C, maxSplits: 3)
            guard fields.count == 4, fields[0].count == 64,
                let index = Int(String(decoding: fields[0].suffix(8), as: UTF8.self), radix: 16),
                outcomes.indices.contains(index)
            else { continue }
            outcomes[index] =
                outcomes[index].isEmpty ? String(decoding: fields[2], as: UTF8.self) : "twice"
        }
        return outcomes
    }

    /// Compares the deactivation list with the ledger and looks that the campaign ended once; the
    /// number of events.
    private mutating func judgeEvents(
        _ campaign: ChaosRun.Campaign, _ outcomes: [String], _ fleet: Fleet
    ) throws -> Int {
        let wanted = Set(outcomes.indices.filter { outcomes[$0] == "gone" })
        var seen: [Int] = []
        let list = try fleet.redis.command("LRANGE", "peal:deactivations", "0", "-1").array ?? []
        for item in list {
            let event = try JSONValue.parse(item.bytes ?? [])
            guard event["campaign"]?.string == campaign.name, let token = event["token"]?.string
            else { continue }
            seen.append(Int(token.suffix(8), radix: 16) ?? -1)
        }
        if Set(seen) != wanted {
            violations.append(
                "\(campaign.name): \(Set(seen).count) tokens on the deactivation list, "
                    + "\(wanted.count) gone in the ledger")
        }
        if seen.count != wanted.count {
            violations.append(
                "\(campaign.name): \(seen.count) deactivation events for \(wanted.count) tokens")
        }
        let events = try fleet.redis.command("LRANGE", "peal:events", "0", "-1").array ?? []
        let ends = try events.filter {
            let event = try JSONValue.parse($0.bytes ?? [])
            return event["campaign"]?.string == campaign.name
                && ["completed", "cancelled"].contains(event["state"]?.string)
        }
        if ends.count != 1 { violations.append("\(campaign.name) ended \(ends.count) times") }
        return seen.count
    }
}
