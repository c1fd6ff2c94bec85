package import Base

extension ShardRun {
    /// What the owner does after an answered commit.
    package enum Step: Equatable, Sendable {
        case goOn
        /// The shard is finished, parked or given back: forget the run.
        case finished
        /// The claim is lost: drop the run and what it still has on the wire.
        case fenced
        /// Send `commitToRepeat` at once: Redis was rolled back.
        case replay
        /// Take the claim back, then call `reasserted`: Redis lost it.
        case reassert
    }

    /// Whether a commit should be made now.
    ///
    /// - `target`: how many marks should be outstanding.
    package func isCommitDue(now: Instant, target: Int) -> Bool {
        guard underWay == nil else { return false }
        guard let lastCommit else { return true }
        let since = now - lastCommit
        guard since >= ShardRun.commitPause else { return false }
        if outcomes >= ShardRun.outcomeLimit || since >= ShardRun.controlInterval { return true }
        if isStopping { return onWire == 0 || since >= ShardRun.commitInterval }
        if probedLevel == 0 && runsDry(target) && (!returned.isEmpty || cursor < ledger.count) {
            return true
        }
        if outstanding == 0 && target > 0 && (probedLevel > 0 || !probe.isEmpty) { return true }
        if target == 0 && confirmed.count > 0 { return true }
        let soon = now.milliseconds + ShardRun.parkBeyondMilliseconds
        let isLast = retries.first.map { $0.time > soon } ?? true
        if outstanding == 0 && !dirty.isEmpty && isLast { return true }
        // Retries become due one by one: they wait for each other.
        guard since >= ShardRun.commitInterval else { return false }
        return !dirty.isEmpty || (runsDry(target) && hasDueRetry(now))
    }

    /// Half of the marks are used and there is room for a quarter: marks on the wire take room, and
    /// without it a commit would hardly mark anything.
    private func runsDry(_ target: Int) -> Bool {
        let room = target - outstanding
        return confirmed.count * 2 <= target && room > 0 && room * 4 >= target
    }

    private func hasDueRetry(_ now: Instant) -> Bool {
        retries.first.map { $0.time <= now.milliseconds } ?? false
    }

    /// Makes the next commit: the outcomes so far and marks up to `target`; 0 gives back the marks
    /// that were not sent.
    package mutating func makeCommit(now: Instant, target: Int) -> Commit {
        precondition(underWay == nil, "one commit per shard is under way at a time")
        if isPastDeadline(now) {
            expireAll()
        } else if isStopping || target == 0 {
            unmarkConfirmed(now)
        } else {
            mark(now, target)
        }
        var commit = next
        number += 1
        commit.number = number
        next = Commit(fence: fence, number: number + 1)
        commit.finish = finish(now)
        if commit.finish != .goOn {
            commit.due = retries.records(now: now.milliseconds, offset: redisOffset)
        }
        if requests > 0 { commit.counters["answers"] = requests }
        commit.latency = latency.enumerated().compactMap {
            $0.element > 0 ? (LatencyBuckets.bound($0.offset), $0.element) : nil
        }
        for index in latency.indices { latency[index] = 0 }
        requests = 0
        outcomes = 0
        commit.changes = changes()
        underWay = commit
        latest = commit
        underWayAt = now
        lastCommit = now
        return commit
    }

    /// The commit under way, to be repeated unchanged.
    package var commitToRepeat: Commit? { underWay }

    /// Takes Redis' answer to the commit under way.
    package mutating func applied(_ reply: CommitReply, now: Instant) -> Step {
        guard let commit = underWay else { return .goOn }
        switch reply.status {
        case .fenced, .gone:
            underWay = nil
            return .fenced
        case .rolledBack:
            underWay = replay(of: commit)
            underWayAt = now
            return .replay
        case .claimRolledBack: return .reassert
        case .done:
            underWay = nil
            return .finished
        case .ok: break
        }
        underWay = nil
        redisOffset = reply.nowMilliseconds - now.milliseconds
        confirmedAt = underWayAt
        recent.append((now, commit))
        recent.removeAll { now - $0.at > ShardRun.replayMemory }
        for index in pendingMarks { confirmed.append(index) }
        pendingMarks.removeAll(keepingCapacity: true)
        if commit.finish != .goOn { return .finished }
        if reply.campaignState != "running" {
            isStopping = true
        } else if !held.isEmpty {
            // The pause did not come about: they are tried again.
            returned.append(contentsOf: held)
            held.removeAll()
        }
        return .goOn
    }

    /// The claim was taken back under a new epoch; the commit to send is the whole ledger.
    package mutating func reasserted(_ taken: Fence, now: Instant) {
        guard let commit = underWay else { return }
        fence = taken
        next.fence = taken
        underWay = replay(of: commit)
        underWay?.fence = taken
        underWayAt = now
    }

    /// Makes the latest commit of a finished run the one under way again: a Redis that was replaced
    /// may have lost it.
    ///
    /// Where it did not, repeating it changes nothing.
    package mutating func reopen() -> Commit? {
        isStopping = true
        underWay = latest
        return latest
    }

    private func replay(of commit: Commit) -> Commit {
        var whole = commit
        whole.isReplay = true
        whole.changes = [Commit.Change(offset: 0, known: committed, bytes: committed)]
        // The last commit of a run carries every due record; others carry the new ones only.
        if whole.finish == .goOn { whole.due = recent.flatMap(\.commit.due) + commit.due }
        for earlier in recent {
            whole.reasons += earlier.commit.reasons
            whole.deactivations += earlier.commit.deactivations
            whole.quarantined += earlier.commit.quarantined
            whole.unknowns += earlier.commit.unknowns
        }
        return whole
    }

    private mutating func mark(_ now: Instant, _ target: Int) {
        if probedLevel > 0 || !probe.isEmpty {
            guard outstanding == 0 else { return }  // all answers of the suspects come first
            markSuspects(target)
            if outstanding > 0 { return }
        }
        var wanted = target - outstanding
        let time = now.milliseconds
        while wanted > 0, let first = retries.first, first.time <= time {
            retries.removeFirst()
            guard LedgerByte.isDeferred(ledger[first.index]) else { continue }
            mark(first.index)
            wanted -= 1
        }
        while wanted > 0, let index = returned.popLast() {
            guard ledger[index] == LedgerByte.untouched else { continue }
            mark(index)
            wanted -= 1
        }
        while wanted > 0, cursor < ledger.count {
            if ledger[cursor] == LedgerByte.untouched {
                mark(cursor)
                wanted -= 1
            }
            cursor += 1
        }
    }

    private mutating func mark(_ index: Int) {
        set(index, LedgerByte.marked(ledger[index]))
        outstanding += 1
        pendingMarks.append(index)
    }

    /// Marks the suspects that are sent next.
    private mutating func markSuspects(_ target: Int) {
        probedLevel = 0
        while outstanding == 0, !probe.isEmpty {
            probedLevel = probe.level
            for index in probe.next(limit: target) where LedgerByte.isDeferred(ledger[index]) {
                mark(index)
            }
            if outstanding == 0 { probedLevel = 0 }
        }
    }

    private mutating func unmarkConfirmed(_ now: Instant) {
        while let index = confirmed.removeFirst() {
            let byte = LedgerByte.unmarked(ledger[index])
            set(index, byte)
            outstanding -= 1
            if LedgerByte.isDeferred(byte) {
                retries.add(index, now.milliseconds)
            } else if !isStopping {
                returned.append(index)
            }
        }
    }

    private mutating func expireAll() {
        while let index = confirmed.removeFirst() {
            outstanding -= 1
            expire(index)
        }
        for index in ledger.indices
        where ledger[index] == LedgerByte.untouched || LedgerByte.isDeferred(ledger[index]) {
            expire(index)
        }
        cursor = ledger.count
        returned.removeAll()
        held.removeAll()
        retries = DueHeap()
        probe.removeAll()
    }

    private mutating func expire(_ index: Int) {
        set(index, LedgerByte.expired)
        explain(index, "Deadline")
    }

    private func finish(_ now: Instant) -> Commit.Finish {
        guard outstanding == 0 else { return .goOn }
        if isStopping { return .release }
        guard returned.isEmpty, held.isEmpty, probe.isEmpty, cursor >= ledger.count,
            let first = retries.first,
            first.time > now.milliseconds + ShardRun.parkBeyondMilliseconds
        else { return .goOn }
        let due = first.time + redisOffset
        let until = min(due, policy.deadlineMilliseconds ?? due)
        return .park(
            untilMilliseconds: until, lengthMilliseconds: max(0, until - redisMilliseconds(now)))
    }

    /// The changed bytes as few stretches; up to 16 unchanged bytes are carried along.
    private mutating func changes() -> [Commit.Change] {
        guard !dirty.isEmpty else { return [] }
        dirty.sort()
        var result: [Commit.Change] = []
        var start = dirty[0]
        var end = start + 1
        for index in dirty.dropFirst() {
            if index <= end + 16 {
                end = max(end, index + 1)
            } else {
                result.append(change(start..<end))
                start = index
                end = index + 1
            }
        }
        result.append(change(start..<end))
        dirty.removeAll(keepingCapacity: true)
        return result
    }

    private mutating func change(_ range: Range<Int>) -> Commit.Change {
        let change = Commit.Change(
            offset: range.lowerBound, known: Array(committed[range]), bytes: Array(ledger[range]))
        committed.replaceSubrange(range, with: change.bytes)
        return change
    }
}
