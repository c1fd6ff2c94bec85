package import Campaign
package import Redis

/// One campaign as dashboards see it.
package struct CampaignReport: Sendable {
    package let id: String
    /// The fields of the campaign's hash.
    package let fields: [String: String]
    /// Recipients by class.
    package let classes: [RecipientClass: Int]
    /// All other counters, `retries` and `reason:<Reason>` among them.
    package let counters: [String: Int]

    package var state: String { fields["state"] ?? "unknown" }
    package var total: Int { Int(fields["total"] ?? "") ?? classes.values.reduce(0, +) }
    /// Recipients by reason.
    package var reasons: [String: Int] {
        var result: [String: Int] = [:]
        for (name, count) in counters where name.hasPrefix("reason:") {
            result[String(name.dropFirst("reason:".count))] = count
        }
        return result
    }
    /// Recipients that a pause or a cancel keeps or kept from being sent to (again): untouched and
    /// deferred ones, and those that a cancel ended.
    package var notSent: Int {
        [.untouched, .deferred, .cancelled].reduce(0) { $0 + classes[$1, default: 0] }
    }
    /// Recipients that are not terminal.
    package var remaining: Int {
        RecipientClass.allCases.filter { !$0.isTerminal }.reduce(0) { $0 + classes[$1, default: 0] }
    }
}

extension JobStore {
    /// The ids of all campaigns, oldest first.
    package func campaigns() throws(RedisError) -> [String] {
        let reply = try redis.command("ZRANGE", key("campaigns"), "0", "-1")
        return (reply.array ?? []).compactMap(\.string)
    }

    /// The campaign with this id, or nil.
    package func report(_ id: String) throws(RedisError) -> CampaignReport? {
        let replies = try redis.pipeline(
            [
                [bytes("HGETALL"), bytes(key("campaign:\(id)"))],
                [bytes("HGETALL"), bytes(key("campaign:\(id):stats"))],
            ], within: RedisConnection.replyLimit)
        for reply in replies {
            if case .error(let text) = reply { throw RedisError(reply: text, to: "HGETALL") }
        }
        let fields = replies[0].fields
        // A control may wait for a job that was not taken yet.
        guard fields["state"] != nil else { return nil }
        var classes: [RecipientClass: Int] = [:]
        var counters: [String: Int] = [:]
        for (name, text) in replies[1].fields {
            let number = Int(text) ?? 0
            if let recipientClass = RecipientClass(rawValue: name) {
                classes[recipientClass] = number
            } else {
                counters[name] = number
            }
        }
        return CampaignReport(id: id, fields: fields, classes: classes, counters: counters)
    }

    /// The job a campaign was made of.
    package func job(_ campaign: String) throws(RedisError) -> [UInt8]? {
        try redis.command("GET", key("campaign:\(campaign):job")).bytes
    }

    /// The number of entries of one of Peal's lists.
    package func length(_ name: String) throws(RedisError) -> Int {
        Int(try redis.command("LLEN", key(name)).integer ?? 0)
    }

    /// What an audit of one campaign found.
    package struct Audit: Sendable {
        package var shards = 0
        package var recipients = 0
        package var repaired = 0
        /// Sentences, one for each difference.
        package var differences: [String] = []
    }

    /// Recomputes a campaign's counters from its ledgers, a shard at a time, and compares.
    package func audit(_ id: String) throws(RedisError) -> Audit {
        var audit = Audit()
        guard let report = try report(id) else { return audit }
        for shard in 0..<(Int(report.fields["shards"] ?? "") ?? 0) {
            let reply = try run(Scripts.auditShard, [id, String(shard)])
            let items = (reply.array ?? []).compactMap(\.string)
            guard items.count >= 2 else { continue }
            audit.shards += 1
            audit.recipients += items[0].split(separator: ",").prefix(11).compactMap { Int($0) }
                .reduce(0, +)
            if items[0] != items[1] {
                audit.differences.append(
                    "shard \(shard): the ledger gives \(items[0]), the counters say \(items[1])")
            }
            if items.count > 2 { audit.repaired += 1 }
        }
        try auditSums(id, &audit)
        return audit
    }

    private func auditSums(_ id: String, _ audit: inout Audit) throws(RedisError) {
        let reply = try run(Scripts.auditCampaign, [id])
        guard let items = reply.array, items.count == 26 else {
            throw RedisError(.lost, "Redis gave an unknown answer to an audit")
        }
        // Some of its shards are removed already.
        guard items[0].string != "retiring" else { return }
        let numbers = items.map { Int($0.integer ?? 0) }
        for (index, recipientClass) in RecipientClass.allCases.enumerated()
        where numbers[4 + index] != numbers[15 + index] {
            audit.differences.append(
                "\(recipientClass.rawValue): the shards give \(numbers[4 + index]), "
                    + "the campaign says \(numbers[15 + index])")
        }
        guard items[0].string != "planning" && items[0].string != "failed" else { return }
        let sum = numbers[4..<15].reduce(0, +)
        if sum != numbers[1] {
            audit.differences.append("the classes add up to \(sum), the total is \(numbers[1])")
        }
        if numbers[2] != numbers[3] {
            audit.differences.append(
                "\(numbers[3]) shards are not done, the campaign says \(numbers[2])")
        }
    }
}
