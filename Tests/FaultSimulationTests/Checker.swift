import Campaign
import Redis

/// Compares what a run left in Redis with what APNs accepted.
///
/// It reads the keys itself and shares no code with the scripts.
struct Checker {
    let simulation: Simulation

    private static let sample = """
        local out = {}
        local letters = { '[.]', '[>A-I]', '[1-9]', 'a', 'g', 'q', 'r', 's', 'x', 'c', 'u' }
        local names = { 'untouched', 'in_flight', 'deferred', 'accepted', 'gone', 'quarantined',
            'rejected', 'skipped', 'expired', 'cancelled', 'unknown' }
        for _, id in ipairs(redis.call('ZRANGE', 'sim:campaigns', 0, -1)) do
          local key = 'sim:campaign:' .. id
          local h = redis.call('HMGET', key, 'state', 'total', 'shards')
          local total = tonumber(h[2] or '0')
          if h[1] ~= 'planning' and total > 0 then
            local sums = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
            for n = 0, tonumber(h[3] or '0') - 1 do
              local shard = key .. ':shard:' .. n
              local s = redis.call('HMGET', shard, 'counts', 'owner', 'state')
              local ledger, found = redis.call('GET', shard .. ':ledger'), {}
              if s[1] then
                for i, letter in ipairs(letters) do
                  local _, count = string.gsub(ledger or '', letter, '')
                  found[i], sums[i] = count, sums[i] + count
                end
                if table.concat(found, ',') ~= s[1] then
                  out[#out + 1] = 'the ledger of ' .. id .. ':' .. n .. ' gives '
                    .. table.concat(found, ',') .. ', its counts are ' .. s[1]
                end
                if s[3] == 'running' then out[#out + 1] = 'owner ' .. id .. ':' .. n .. ' ' .. s[2]
                end
              end
            end
            local sum = 0
            for i, name in ipairs(names) do
              sum = sum + sums[i]
              local kept = tonumber(redis.call('HGET', key .. ':stats', name) or '0')
              if kept ~= sums[i] then out[#out + 1] = name .. ' of ' .. id .. ': the ledgers give '
                .. sums[i] .. ', the counter says ' .. kept end
            end
            if sum ~= total then out[#out + 1] = id .. ' has ' .. sum .. ' of ' .. total end
          end
        end
        return out
        """

    /// The ledgers and counters at this moment, and shards of the dead.
    func sample() {
        let reply = simulation.redis.plain(["EVAL", Checker.sample, "0"])
        for line in (reply.array ?? []).compactMap(\.string) {
            let words = line.split(separator: " ")
            if words.first == "owner" {
                if words.count == 3 {
                    simulation.history.stuck(String(words[1]), owner: String(words[2]))
                }
            } else {
                simulation.history.fault(line)
            }
        }
    }

    /// What is left to do; empty when all is quiet.
    func unrest() -> [String] {
        var rest: [String] = []
        for campaign in simulation.campaigns {
            let state = field(campaign.id, "state") ?? "none"
            if state != "completed", state != "cancelled" { rest.append("\(campaign.id) \(state)") }
        }
        let counts = [
            ("open", "HLEN"), ("held", "HLEN"), ("leases", "ZCARD"), ("deferred", "ZCARD"),
            ("jobs", "LLEN"), ("plans", "LLEN"), ("control", "LLEN"), ("chores", "LLEN"),
        ]
        for (name, command) in counts {
            let count = simulation.redis.plain([command, "sim:\(name)"]).integer ?? -1
            if count != 0 { rest.append("\(count) \(name)") }
        }
        // What a frozen worker does when it wakes belongs to the run.
        if simulation.workers.contains(where: { $0.isAlive && $0.isFrozen }) {
            rest.append("a frozen worker")
        }
        let claims = simulation.redis.plain(["KEYS", "sim:claims:*"]).array ?? []
        if !claims.isEmpty { rest.append(claims.compactMap(\.string).joined(separator: " ")) }
        return rest
    }

    private func field(_ campaign: String, _ name: String) -> String? {
        simulation.redis.plain(["HGET", "sim:campaign:\(campaign)", name]).string
    }

    /// The account at the end.
    func account() {
        sample()
        let lists = (simulation.redis.plain(["KEYS", "sim:campaign:*:ready"]).array ?? [])
        if !lists.isEmpty { simulation.history.fault("\(lists.count) lists of ready shards left") }
        let told = entries("deactivations")
        for campaign in simulation.campaigns {
            account(campaign, told)
            countEnds(campaign)
        }
    }

    /// How often each recipient stands on a list.
    private func entries(_ list: String) -> [Int: Int] {
        var result: [Int: Int] = [:]
        let reply = simulation.redis.plain(["LRANGE", "sim:\(list)", "0", "-1"])
        for text in (reply.array ?? []).compactMap(\.string) {
            guard let start = text.firstRange(of: "\"token\":\"")?.upperBound else { continue }
            let token = text[start...].prefix(64)
            result[Int(token.suffix(8), radix: 16) ?? -1, default: 0] += 1
        }
        return result
    }

    private func countEnds(_ campaign: Simulation.Backed) {
        let reply = simulation.redis.plain(["LRANGE", "sim:events", "0", "-1"])
        let ends = (reply.array ?? []).compactMap(\.string).count {
            $0.contains("\"campaign\":\"\(campaign.id)\"")
                && ($0.contains("\"completed\"") || $0.contains("\"cancelled\""))
        }
        let isWrong = simulation.history.rollbacks == 0 ? ends != 1 : ends < 1
        if isWrong { simulation.history.fault("\(campaign.id) ended \(ends) times") }
    }

    private func account(_ campaign: Simulation.Backed, _ told: [Int: Int]) {
        let history = simulation.history
        let isCancelled = field(campaign.id, "state") == "cancelled"
        let shards = Int(field(campaign.id, "shards") ?? "") ?? 0
        var bytes: [Int: UInt8] = [:]
        for shard in 0..<shards {
            let key = "sim:campaign:\(campaign.id):shard:\(shard)"
            let windows =
                (simulation.redis.plain(["LRANGE", "\(key):recipients", "0", "-1"]).array
                ?? []).compactMap(\.bytes)
            let ledger = simulation.redis.plain(["GET", "\(key):ledger"]).bytes ?? []
            guard let table = RecipientTable(windows: windows), table.count == ledger.count else {
                history.fault("shard \(shard) of \(campaign.id) does not hold together")
                continue
            }
            for index in ledger.indices {
                let recipient = Recipient.read(table.content(index))
                if bytes.updateValue(ledger[index], forKey: recipient) != nil {
                    history.fault("\(recipient) stands in two places")
                }
            }
        }
        // Nothing of a campaign that was cancelled before its plan was finished.
        if isCancelled, field(campaign.id, "total") == "0" { return }
        for recipient in campaign.recipients {
            guard let byte = bytes[recipient] else {
                history.fault("\(recipient) of \(campaign.id) was lost")
                continue
            }
            check(recipient, Character(UnicodeScalar(byte)), campaign, isCancelled, told)
        }
    }

    private func check(
        _ recipient: Int, _ byte: Character, _ campaign: Simulation.Backed, _ isCancelled: Bool,
        _ told: [Int: Int]
    ) {
        let (history, kind) = (simulation.history, simulation.faults.kind)
        let accepted = simulation.apns.accepted[recipient, default: 0]
        let doubts = history.doubts[recipient, default: 0]
        let plans = history.plans[recipient, default: []].count
        let what = "\(recipient) of \(campaign.id) (\(campaign.policy)) ends as \(byte)"
        // A plan that Redis forgot takes what was sent for it along.
        var allowed = 1 + max(0, plans - 1)
        if campaign.policy == .resend { allowed += doubts }
        if kind == .all { allowed += history.rollbacks + (history.rollbacks > 0 ? doubts : 0) }
        if accepted > allowed { history.fault("\(what), accepted \(accepted) times of \(allowed)") }
        switch byte {
        case "a": if accepted == 0 { history.fault("\(what) and was never accepted") }
        case "g":
            let entries = told[recipient, default: 0]
            if entries == 0 { history.fault("\(what) and is on no list") }
            if kind == .steady, entries > simulation.apns.gone[recipient, default: 0] {
                history.fault("\(what) and is on the list \(entries) times")
            }
        case "u":
            let isExplained =
                campaign.policy == .resend && !isCancelled
                ? history.lostAnswers[recipient, default: 0] > 1 : doubts > 0
            if !isExplained, kind == .steady { history.fault("\(what) without a reason") }
        case "c":
            if !isCancelled { history.fault("\(what) and nobody cancelled") }
            if kind == .steady, accepted > 0, doubts == 0 {
                history.fault("\(what) and was accepted")
            }
        case "r": break  // tries used up
        default: history.fault("\(what) at the end")
        }
    }
}
