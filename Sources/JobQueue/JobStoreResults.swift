package import Campaign
internal import Redis

/// What became of one recipient so far.
package struct RecipientResult: Sendable {
    package let shard: Int
    /// From 0, in the order of the ledger.
    package let position: Int
    /// A device token in binary, or with `isToken` false the beginning of a text that is none.
    package let content: [UInt8]
    package let isToken: Bool
    package let outcome: RecipientClass
    /// Why, or nothing: APNs' reason or one of ours.
    package let reason: String
}

/// A shard whose keys do not hold together, or are gone.
package struct ShardUnreadable: Error, CustomStringConvertible {
    package let shard: Int
    package let description: String
}

extension JobStore {
    /// Windows read in one round trip: at most 256 KB of recipients.
    package static let windowsPerRead = 4

    /// Hands the recipients of one shard to `body`, in order; returns how many the shard has.
    ///
    /// Reads a few windows at a time, so that neither Redis nor memory notices. While the campaign
    /// runs, each recipient is as it was when its window was read.
    ///
    /// - `outcomes`: the classes to hand out.
    /// - `body`: answers false to end the reading.
    package func results(
        _ campaign: String, shard: Int, outcomes: Set<RecipientClass>,
        _ body: (RecipientResult) throws -> Bool
    ) throws -> Int {
        let name = key("campaign:\(campaign):shard:\(shard)")
        let facts = try redis.command("HMGET", name, "size", "counts").array ?? []
        guard facts.count == 2, let size = facts[0].integer.map({ Int($0) }) else { return 0 }
        let counts = (facts[1].string ?? "").split(separator: ",").map { Int($0) ?? 0 }
        let classes = zip(RecipientClass.allCases, counts)
        // The counts of a shard in which all are terminal stay as they are.
        if counts.count == RecipientClass.allCases.count,
            classes.allSatisfy({ $1 == 0 || ($0.isTerminal && !outcomes.contains($0)) })
        {
            return size
        }
        var window = 0
        var position = 0
        while true {
            let part = try redis.command(
                "LRANGE", "\(name):recipients", String(window),
                String(window + JobStore.windowsPerRead - 1))
            let windows = (part.array ?? []).compactMap(\.bytes)
            if windows.isEmpty { break }
            guard let table = RecipientTable(windows: windows) else {
                throw ShardUnreadable(
                    shard: shard, description: "its recipients are packed in an unknown way")
            }
            let wanted = try read(table, name, shard, from: position, outcomes)
            for result in wanted where try !body(result) { return size }
            window += windows.count
            position += table.count
        }
        guard position == size else {
            throw ShardUnreadable(
                shard: shard, description: "only \(position) of its \(size) recipients are there")
        }
        return size
    }

    /// The wanted recipients of a few windows, the first of which is at `start`.
    private func read(
        _ table: RecipientTable, _ name: String, _ shard: Int, from start: Int,
        _ outcomes: Set<RecipientClass>
    ) throws -> [RecipientResult] {
        let reply = try redis.command(
            "GETRANGE", "\(name):ledger", String(start), String(start + table.count - 1))
        let ledger = reply.bytes ?? []
        guard ledger.count == table.count else {
            throw ShardUnreadable(shard: shard, description: "its ledger is gone or too short")
        }
        var wanted: [(index: Int, outcome: RecipientClass)] = []
        for index in 0..<table.count {
            guard let outcome = LedgerByte.recipientClass(ledger[index]) else {
                throw ShardUnreadable(
                    shard: shard, description: "its ledger holds an unknown byte")
            }
            if outcomes.contains(outcome) { wanted.append((index, outcome)) }
        }
        // The others have none.
        let explained = wanted.filter { $0.outcome != .accepted && $0.outcome != .untouched }
        let reasons = try reasons(name, explained.map { start + $0.index })
        return wanted.map { index, outcome in
            RecipientResult(
                shard: shard, position: start + index, content: Array(table.content(index)),
                isToken: !table.isInvalid(index), outcome: outcome,
                reason: reasons[start + index] ?? "")
        }
    }

    /// The reasons of positions, read by a thousand.
    private func reasons(_ name: String, _ positions: [Int]) throws(RedisError) -> [Int: String] {
        var reasons: [Int: String] = [:]
        var start = 0
        while start < positions.count {
            let part = positions[start..<min(start + 1000, positions.count)]
            let words = ["HMGET", "\(name):reasons"] + part.map(String.init)
            let texts = try redis.command(words.map { bytes($0) }).array ?? []
            for (position, text) in zip(part, texts) { reasons[position] = text.string }
            start += part.count
        }
        return reasons
    }
}
