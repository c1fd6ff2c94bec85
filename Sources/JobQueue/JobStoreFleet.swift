package import Campaign
package import Redis

extension JobStore {
    /// A lease that a worker renews.
    package enum Hold: Sendable, Hashable {
        case shard(Fence)
        case plan(campaign: String, plan: String)

        /// The name of the lease.
        package var member: String {
            switch self {
            case .shard(let fence): "\(fence.campaign):\(fence.shard)"
            case .plan(let campaign, _): "\(campaign):plan"
            }
        }
    }

    /// Says that the worker lives, renews its leases and names those it has lost.
    package func heartbeat(
        worker: String, fields: [String: String], holds: [Hold]
    ) throws(RedisError) -> Set<Hold> {
        var lost: Set<Hold> = []
        var start = 0
        repeat {
            let part = holds[start..<min(start + 64, holds.count)]
            start += 64
            var arguments = [
                worker, String(JobStore.leaseMilliseconds), String(fields.count * 2),
            ]
            for (name, value) in fields.sorted(by: { $0.key < $1.key }) {
                arguments += [name, value]
            }
            for hold in part {
                switch hold {
                case .shard(let fence):
                    arguments += [
                        fence.campaign, String(fence.shard), String(fence.epoch), fence.nonce,
                    ]
                case .plan(let campaign, let plan): arguments += [campaign, "plan", "", plan]
                }
            }
            let reply = try run(Scripts.heartbeat, arguments)
            for place in (reply.array ?? []).dropFirst() {
                guard let place = place.integer, part.indices.contains(part.startIndex + Int(place))
                else { continue }
                lost.insert(part[part.startIndex + Int(place)])
            }
        } while start < holds.count
        return lost
    }

    /// Takes a worker that ends in good order off the list.
    package func retire(worker: String) throws(RedisError) {
        _ = try run(Scripts.orphans, [worker, "0"])
    }

    /// A lease that was seen expired: what the second look compares.
    package struct Expired: Sendable, Hashable {
        package let member: String
        package let epoch: String
        package let revision: String
    }

    /// The first look: expired leases and workers without heartbeat.
    package func expired() throws(RedisError) -> (leases: [Expired], workers: [String]) {
        let reply = try run(
            Scripts.expired,
            [String(JobStore.leaseMilliseconds), String(JobStore.deadWorkerMilliseconds)])
        guard let parts = reply.array, parts.count == 2 else { return ([], []) }
        let leases = (parts[0].array ?? []).compactMap { entry -> Expired? in
            guard let items = entry.array, items.count == 3, let member = items[0].string
            else { return nil }
            return Expired(
                member: member, epoch: items[1].string ?? "", revision: items[2].string ?? "")
        }
        return (leases, (parts[1].array ?? []).compactMap(\.string))
    }

    /// What the second look did.
    package enum Reclaimed: Sendable, Equatable {
        case kept
        case plan
        /// Planning it ended too many workers: the campaign failed.
        case planFailed
        /// - `level`: the highest level among the suspects.
        case shard(resent: Int, unknown: Int, poison: Int, level: Int)
        /// The shard ended too many workers before anything was sent: the campaign is paused.
        case paused
    }

    /// The second look, half a lease after the first: takes back what is unchanged.
    package func reclaim(_ lease: Expired) throws(RedisError) -> Reclaimed {
        let reply = try run(Scripts.reclaim, [lease.member, lease.epoch, lease.revision])
        let items = reply.array ?? []
        switch items.first?.string {
        case "plan": return .plan
        case "plan_failed": return .planFailed
        case "paused": return .paused
        case "shard" where items.count == 5:
            let numbers = items.dropFirst().map { Int($0.integer ?? 0) }
            return .shard(
                resent: numbers[0], unknown: numbers[1], poison: numbers[2], level: numbers[3])
        default: return .kept
        }
    }

    /// Gives the jobs of a dead worker back; the number of jobs.
    package func adoptOrphans(of worker: String) throws(RedisError) -> Int {
        let reply = try run(Scripts.orphans, [worker, String(JobStore.deadWorkerMilliseconds)])
        return Int(max(0, reply.integer ?? 0))
    }

    /// Makes parked shards ready that are due; the number of shards.
    ///
    /// - `rank`: where to look for times too far ahead, moved on by each call; nil to look at none.
    package func unpark(checking rank: inout Int?) throws(RedisError) -> Int {
        let reply = try run(Scripts.unpark, [String(rank ?? -1)]).array ?? []
        guard reply.count == 2 else { return 0 }
        if rank != nil { rank = Int(reply[1].integer ?? 0) }
        return Int(reply[0].integer ?? 0)
    }

    /// Pauses, resumes or cancels a campaign; the state it is in now, or nil without such a one.
    ///
    /// - `ahead`: it is obeyed also when the job is taken later, within 7 days; the state is then
    ///   `ahead`.
    package func control(
        campaign: String, _ action: ControlAction, reason: String, ahead: Bool = false
    ) throws(RedisError) -> String? {
        let reply = try run(
            Scripts.control, [campaign, action.rawValue, reason, ahead ? "ahead" : ""])
        guard let state = reply.array?.first?.string, state != "unknown" else { return nil }
        return state
    }

    package enum ControlAction: String, Sendable, CaseIterable { case pause, resume, cancel }

    /// Looks whether every open shard can still go on, some of them per call; the number mended.
    ///
    /// - `cursor`: where the last call ended, at first "0".
    package func callRoll(_ cursor: inout String) throws(RedisError) -> Int {
        let reply = try run(Scripts.rollCall, [cursor]).array ?? []
        guard reply.count == 2, let next = reply[0].string else { return 0 }
        cursor = next
        return Int(reply[1].integer ?? 0)
    }

    /// Obeys what backends pushed onto the control list: the number of entries, and those of
    /// `campaigns` that do not run.
    package func obeyControls(
        watching campaigns: [String] = []
    ) throws(RedisError) -> (taken: Int, stopped: [String]) {
        let items = try run(Scripts.controls, campaigns).array ?? []
        return (Int(items.first?.integer ?? 0), items.dropFirst().compactMap(\.string))
    }

    /// Does one part of the work that paused, resumed, cancelled or failed campaigns leave; false
    /// when there is none.
    package func doChore() throws(RedisError) -> Bool { try run(Scripts.chore, []).integer == 1 }

    /// What is left for any worker to do.
    package struct Idle: Sendable {
        package let jobs: Int
        package let plans: Int
        package let claimable: Int
        package let leases: Int
        package let parked: Int
        package var isIdle: Bool { jobs + plans + claimable + leases + parked == 0 }
    }

    package func idle() throws(RedisError) -> Idle {
        let numbers = (try run(Scripts.idle, []).array ?? []).map { Int($0.integer ?? 0) }
        guard numbers.count == 5 else {
            throw RedisError(.lost, "Redis gave an unknown answer to idle")
        }
        return Idle(
            jobs: numbers[0], plans: numbers[1], claimable: numbers[2], leases: numbers[3],
            parked: numbers[4])
    }
}
