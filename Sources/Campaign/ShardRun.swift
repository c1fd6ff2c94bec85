package import Base

/// What became of one sent notification, as the shard run needs to know it.
package enum PushResult: Sendable {
    case accepted
    /// 410: on the deactivation list with this event.
    case gone(reason: String, event: [UInt8])
    case quarantined(reason: String, entry: [UInt8])
    case rejected(reason: String)
    /// Not accepted; to be sent again after the delay, or rejected when that is nil (tries used
    /// up).
    case retry(reason: String, delayMilliseconds: Int64?)
    /// Proven not processed: sent again at once, no try charged.
    case notProcessed
    /// Sent or possibly sent, no answer: the campaign's policy decides. Where it sends again, it
    /// does
    /// so after the delay.
    case unknown(reason: String, delayMilliseconds: Int64)
    /// Not accepted for a fault that is not the recipient's: kept for after the pause, uncharged.
    case held(reason: String)
}

/// What a shard run needs to know of its campaign.
package struct RunPolicy: Sendable {
    /// An unknown outcome is sent again once; otherwise it ends as unknown.
    package var resendsUnknown = true
    /// Nothing is sent after this time (Redis' clock, ms).
    package var deadlineMilliseconds: Int64?

    package init() {}
}

/// The work on one claimed shard: which recipients to mark, which marked ones to send, what became
/// of them, and what the next commit carries.
///
/// Pure: no clock, socket or random source inside.
///
/// 1. `makeCommit` marks the next recipients; only after `applied` may `next` hand them out.
/// 2. `record` takes each outcome.
/// 3. One commit is under way at a time; it is repeated unchanged until it is answered.
/// 4. A mark may be used for 10 s after the commit that last confirmed the claim was made; then a
///    process that was frozen does not send on an old grant.
package struct ShardRun {
    /// Outcomes that make a commit due.
    package static let outcomeLimit = 500
    /// The longest time between two commits while something changed.
    package static let commitInterval = Nanoseconds.milliseconds(400)
    /// The longest time between two looks at the campaign's state.
    package static let controlInterval = Nanoseconds.milliseconds(500)
    /// The shortest time between two commits.
    package static let commitPause = Nanoseconds.milliseconds(10)
    /// How long a confirmed mark may be used.
    package static let markLifetime = Nanoseconds.seconds(10)
    /// A shard whose next due time is further away parks.
    package static let parkBeyondMilliseconds: Int64 = 5000
    /// Times one recipient may be refused without charge before it waits a second.
    package static let refusalLimit = 3
    /// How long what was committed is kept, to write it again after a rollback.
    package static let replayMemory = Nanoseconds.seconds(5)

    package internal(set) var fence: Fence
    package let policy: RunPolicy
    package internal(set) var ledger: [UInt8]
    /// The ledger as of the latest commit made: what Redis holds once that is applied.
    var committed: [UInt8]
    /// Recipients in the ledger that are in flight: marked, sent or not.
    package internal(set) var outstanding = 0
    /// Sent and not answered.
    package internal(set) var onWire = 0
    package internal(set) var isStopping = false
    /// What is in flight are suspects, of this level; 0 otherwise.
    var probedLevel = 0

    var cursor = 0  // everything below was looked at
    var returned: [Int] = []  // untouched again below the cursor
    var held: [Int] = []  // untouched, kept back by a fault that is not theirs
    var retries = DueHeap()
    var probe = Probe()
    var confirmed = IndexQueue()  // marks that Redis confirmed, not sent yet
    var confirmedAt: Instant
    var pendingMarks: [Int] = []  // marks in the commit under way
    var redisOffset: Int64  // Redis' clock in ms minus our own
    var unknownSpent: Set<Int>
    var refusals: [Int: Int] = [:]

    var number = 0
    var underWay: Commit?
    /// The latest commit that was made, kept to be written again after a rollback.
    var latest: Commit?
    var underWayAt: Instant
    var lastCommit: Instant?
    var outcomes = 0
    var dirty: [Int] = []
    var next: Commit
    var latency = [Int](repeating: 0, count: LatencyBuckets.count)
    var requests = 0
    var recent: [(at: Instant, commit: Commit)] = []

    /// - `due`: records of a shard that was parked, or of earlier deferrals.
    /// - `unknowns`: indexes whose one unknown outcome was used up.
    /// - `suspects`: who was in flight when earlier owners died.
    package init(
        fence: Fence, policy: RunPolicy, recipients: RecipientTable, ledger: [UInt8],
        due: [UInt8], unknowns: [UInt8], suspects: [UInt8] = [], redisMilliseconds: Int64,
        now: Instant
    ) {
        precondition(recipients.count == ledger.count, "a ledger has one byte per recipient")
        self.fence = fence
        self.policy = policy
        self.ledger = ledger
        committed = ledger
        redisOffset = redisMilliseconds - now.milliseconds
        confirmedAt = now
        underWayAt = now
        unknownSpent = DueRecords.readIndexes(unknowns)
        next = Commit(fence: fence, number: 1)
        for index in 0..<recipients.count where ledger[index] == LedgerByte.untouched {
            if recipients.isInvalid(index) { skip(index, "InvalidToken") }
        }
        for index in recipients.duplicates() where self.ledger[index] == LedgerByte.untouched {
            skip(index, "Duplicate")
        }
        let waits = DueRecords.waits(due, now: redisMilliseconds)
        let levels = Probe.read(suspects)
        for index in 0..<ledger.count where LedgerByte.isDeferred(ledger[index]) {
            if let level = levels[index], waits[index, default: 0] == 0 {
                probe.add(index, level: level)
            } else {
                // One that was never written down waits a second.
                retries.add(index, now.milliseconds + waits[index, default: 1000])
            }
        }
    }

    private mutating func skip(_ index: Int, _ reason: String) {
        set(index, LedgerByte.skipped)
        explain(index, reason)
    }

    /// Redis' clock at our time `now`, in milliseconds.
    package func redisMilliseconds(_ now: Instant) -> Int64 {
        now.milliseconds + redisOffset
    }

    /// Whether there is something to send now or to mark; without it, the run only waits for
    /// answers and for the time to send again.
    package var hasWork: Bool {
        cursor < ledger.count || confirmed.count > 0 || !returned.isEmpty || !pendingMarks.isEmpty
            || !probe.isEmpty
    }

    /// Nothing else of this worker may be in flight while this run sends: it looks for a recipient
    /// that ends workers.
    package var needsSolitude: Bool { max(probe.level, probedLevel) >= Probe.solitude }

    /// Marks that may be sent now.
    package var sendable: Int { confirmed.count }

    /// The next recipient to send, or nil when no usable mark is there.
    package mutating func nextToSend(now: Instant) -> Int? {
        guard !isStopping, !isPastDeadline(now), now - confirmedAt < ShardRun.markLifetime,
            let index = confirmed.removeFirst()
        else { return nil }
        onWire += 1
        return index
    }

    func isPastDeadline(_ now: Instant) -> Bool {
        policy.deadlineMilliseconds.map { redisMilliseconds(now) >= $0 } ?? false
    }

    /// Charged tries of a recipient so far.
    package func tries(_ index: Int) -> Int { LedgerByte.tries(ledger[index]) }

    /// Takes the outcome of a sent notification.
    ///
    /// - `latencyMilliseconds`: time from sending to the answer, nil without an answer.
    package mutating func record(
        _ index: Int, _ result: PushResult, latencyMilliseconds: Int?, now: Instant
    ) {
        onWire -= 1
        guard LedgerByte.isInFlight(ledger[index]) else { return }
        if let latencyMilliseconds {
            latency[LatencyBuckets.index(milliseconds: latencyMilliseconds)] += 1
            requests += 1
        }
        switch result {
        case .accepted: settle(index, LedgerByte.accepted)
        case .gone(let reason, let event):
            settle(index, LedgerByte.gone)
            explain(index, reason)
            next.deactivations.append(event)
        case .quarantined(let reason, let entry):
            settle(index, LedgerByte.quarantined)
            explain(index, reason)
            next.quarantined.append(entry)
        case .rejected(let reason):
            settle(index, LedgerByte.rejected)
            explain(index, reason)
        case .retry(let reason, let delay):
            postpone(index, delay, otherwise: LedgerByte.rejected, reason, now)
        case .notProcessed: refuse(index, now)
        case .unknown(let reason, let delay):
            count("unanswered")
            let again = policy.resendsUnknown && unknownSpent.insert(index).inserted
            if again {
                withUnsafeBytes(of: UInt32(index).littleEndian) {
                    next.unknowns.append(contentsOf: $0)
                }
            }
            postpone(index, again ? delay : nil, otherwise: LedgerByte.unknown, reason, now)
        case .held(let reason):
            count("reason:\(reason)")
            let byte = LedgerByte.unmarked(ledger[index])
            settle(index, byte)
            if byte == LedgerByte.untouched {
                held.append(index)
            } else {
                deferAgain(index, 5000, now)
            }
        }
    }

    /// Stops handing out marks: they go back, what is on the wire may still be answered.
    package mutating func stop() { isStopping = true }

    private mutating func postpone(
        _ index: Int, _ delay: Int64?, otherwise final: UInt8, _ reason: String, _ now: Instant
    ) {
        guard let delay, let byte = LedgerByte.charged(ledger[index]) else {
            settle(index, final)
            explain(index, reason)
            return
        }
        settle(index, byte)
        count("reason:\(reason)")
        count("retries")
        deferAgain(index, delay, now)
    }

    private mutating func deferAgain(_ index: Int, _ delay: Int64, _ now: Instant) {
        retries.add(index, now.milliseconds + delay)
        DueRecords.append(index, at: redisMilliseconds(now) + delay, ahead: delay, to: &next.due)
    }

    private mutating func refuse(_ index: Int, _ now: Instant) {
        count("refused")
        let times = refusals[index, default: 0] + 1
        refusals[index] = times
        if times <= ShardRun.refusalLimit && !isStopping {
            confirmed.insertFirst(index)  // its mark still stands
            return
        }
        refusals[index] = nil
        let byte = LedgerByte.unmarked(ledger[index])
        settle(index, byte)
        if byte == LedgerByte.untouched {
            returned.append(index)
        } else {
            deferAgain(index, 1000, now)
        }
    }

    private mutating func settle(_ index: Int, _ byte: UInt8) {
        outstanding -= 1
        outcomes += 1
        set(index, byte)
    }

    mutating func set(_ index: Int, _ byte: UInt8) {
        ledger[index] = byte
        dirty.append(index)
    }

    mutating func explain(_ index: Int, _ reason: String) {
        next.reasons.append((index, reason))
        count("reason:\(reason)")
    }

    mutating func count(_ name: String) { next.counters[name, default: 0] += 1 }
}
