import Campaign

/// What the commit script does to one shard, in a few lines: the judge of the shard run.
struct CommitModel {
    enum State { case running, ready, parked(until: Int64), done }

    var fence: Fence
    var ledger: [UInt8]
    var revision = 0
    var state = State.running
    var campaign = "running"
    var due: [UInt8] = []
    var unknowns: [UInt8] = []
    var reasons: [Int: String] = [:]
    var deactivations = 0
    /// Counters kept by differences, as the script keeps them.
    var counts: [RecipientClass: Int]

    init(fence: Fence, recipients: Int) {
        self.fence = fence
        ledger = Array(repeating: LedgerByte.untouched, count: recipients)
        counts = [.untouched: recipients]
    }

    /// Counted from the ledger.
    var recounted: [RecipientClass: Int] {
        var result: [RecipientClass: Int] = [:]
        for byte in ledger {
            if let kind = LedgerByte.recipientClass(byte) { result[kind, default: 0] += 1 }
        }
        return result
    }

    var left: Int { recounted.filter { !$0.key.isTerminal }.values.reduce(0, +) }

    mutating func claim(nonce: String) {
        fence.epoch += 1
        fence.nonce = nonce
        revision = 0
        state = .running
    }

    mutating func apply(_ commit: Commit, nowMilliseconds: Int64) -> CommitReply {
        func reply(_ status: CommitReply.Status) -> CommitReply {
            CommitReply(
                status: status, campaignState: campaign, nowMilliseconds: nowMilliseconds,
                left: left)
        }
        guard commit.fence == fence else { return reply(.fenced) }
        if revision == commit.number { return reply(left == 0 ? .done : .ok) }
        guard case .running = state else { return reply(.fenced) }
        guard revision == commit.number - 1 || (commit.isReplay && revision < commit.number) else {
            return reply(.rolledBack)
        }
        revision = commit.number
        for change in commit.changes {
            for (index, byte) in zip(change.offset..., change.bytes) { set(index, byte) }
        }
        for reason in commit.reasons { reasons[reason.index] = reason.text }
        deactivations += commit.deactivations.count
        unknowns += commit.unknowns
        if left == 0 {
            state = .done
            return reply(.done)
        }
        switch commit.finish {
        case .goOn: due += commit.due
        case .release: (state, due) = (.ready, commit.due)
        case .park(let time, _): (state, due) = (.parked(until: time), commit.due)
        }
        return reply(.ok)
    }

    private mutating func set(_ index: Int, _ byte: UInt8) {
        guard let old = LedgerByte.recipientClass(ledger[index]), !old.isTerminal,
            let new = LedgerByte.recipientClass(byte)
        else { return }
        counts[old, default: 0] -= 1
        counts[new, default: 0] += 1
        ledger[index] = byte
    }
}
