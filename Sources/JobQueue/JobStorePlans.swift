package import Campaign
package import Redis

extension JobStore {
    /// A campaign that waits for its plan, under a fresh claim.
    package struct ClaimedPlan: Sendable {
        package let campaign: String
        package let plan: String
        package let job: [UInt8]
        /// Shards of an earlier plan that was not finished.
        package let staleShards: Int
    }

    /// Somebody else plans this campaign now.
    package struct PlanFenced: Error {}

    /// Redis lost a part of the plan: it is to be made anew.
    package struct PlanRolledBack: Error {}

    package func claimPlan(worker: String, plan: String) throws(RedisError) -> ClaimedPlan? {
        let reply = try run(
            Scripts.planClaim, [worker, plan, String(JobStore.leaseMilliseconds)])
        guard let items = reply.array, items.count == 4, items[0].string == "plan",
            let campaign = items[1].string, let job = items[2].bytes
        else { return nil }
        return ClaimedPlan(
            campaign: campaign, plan: plan, job: job, staleShards: Int(items[3].integer ?? 0))
    }

    /// Removes what an earlier plan left and notes the number of shards of this one.
    package func clearPlan(_ plan: ClaimedPlan, shards: Int) throws {
        var first = 0
        repeat {
            try clearPart(plan, first: first, shards: shards)
            first += 32
        } while first < plan.staleShards
    }

    /// One call of several: only the last one notes the new number, so that a plan which dies in
    /// between leaves the old one to the next.
    func clearPart(_ plan: ClaimedPlan, first: Int, shards: Int) throws {
        let last = min(first + 31, plan.staleShards - 1)
        let isLast = last >= plan.staleShards - 1
        try checked(
            run(
                Scripts.planClear,
                [
                    plan.campaign, plan.plan, String(first), String(last),
                    isLast ? String(shards) : "", String(JobStore.leaseMilliseconds),
                ]))
    }

    package func writePlan(_ plan: ClaimedPlan, call: Int, _ windows: [PlanBuilder.Window]) throws {
        var arguments = [
            plan.campaign, plan.plan, String(call), String(JobStore.leaseMilliseconds),
        ].map { bytes($0) }
        for window in windows {
            arguments += [bytes(String(window.shard)), bytes(String(window.count)), window.bytes]
        }
        try checked(run(Scripts.planWrite, bytes: arguments))
    }

    /// Completes shards `first` to `last`, 64 at most.
    package func closePlan(_ plan: ClaimedPlan, first: Int, last: Int) throws {
        try checked(
            run(
                Scripts.planClose,
                [
                    plan.campaign, plan.plan, String(first), String(last),
                    String(JobStore.leaseMilliseconds),
                ]))
    }

    package func finishPlan(_ plan: ClaimedPlan, openShards: Int, total: Int) throws {
        try checked(
            run(
                Scripts.planFinish, [plan.campaign, plan.plan, String(openShards), String(total)]))
    }

    package func failPlan(_ plan: ClaimedPlan, reason: String, letter: [UInt8]) throws {
        try checked(
            run(
                Scripts.planFail,
                bytes: [bytes(plan.campaign), bytes(plan.plan), bytes(reason), letter]))
    }

    /// Says in the campaign's `reason` why its plan waits; nil when it goes on.
    package func notePlan(_ plan: ClaimedPlan, waiting reason: String?) throws {
        try checked(run(Scripts.planNote, [plan.campaign, plan.plan, reason ?? ""]))
    }

    package func releasePlan(_ plan: ClaimedPlan) throws {
        try checked(run(Scripts.planRelease, [plan.campaign, plan.plan]))
    }

    private func checked(_ reply: RedisReply) throws {
        if reply.string == "rolled_back" { throw PlanRolledBack() }
        if reply.string != "ok" { throw PlanFenced() }
    }

    /// The number of entries of a Redis list outside Peal's keys; WRONGTYPE when it is no list.
    package func listLength(_ list: String) throws(RedisError) -> Int {
        Int(try redis.command("LLEN", list).integer ?? 0)
    }

    /// Some entries of a Redis list.
    package func listPage(_ list: String, from: Int, count: Int) throws(RedisError) -> [[UInt8]] {
        let reply = try redis.command("LRANGE", list, String(from), String(from + count - 1))
        return (reply.array ?? []).map { $0.bytes ?? [] }
    }
}
