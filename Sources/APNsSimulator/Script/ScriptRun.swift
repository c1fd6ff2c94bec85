internal import Base

/// How far a script has come: the counters of its rules.
///
/// Pure: the caller gives times. The same arrivals in the same order get the same deeds.
package struct ScriptState: Sendable {
    /// Device tokens that are remembered; conditions and rates on others do not hold.
    package static let tokenLimit = 1 << 20

    package let script: Script
    /// Arrivals so far.
    package private(set) var total = 0
    private var used: [Int]
    private let countsTokens: Bool
    private var ofToken: [UInt64: Int] = [:]
    private var times: [UInt64: [Int64]] = [:]
    private var random: SeededRandom

    package init(_ script: Script) {
        self.script = script
        used = Array(repeating: 0, count: script.rules.count)
        countsTokens = script.countsTokens
        random = SeededRandom(seed: script.settings.seed)
    }

    /// The deed for an arrival, or nil where no rule holds.
    package mutating func deed(for arrival: ScriptArrival) -> Deed? {
        total += 1
        guard !script.rules.isEmpty else { return nil }
        var arrival = arrival
        arrival.total = total
        arrival.ofToken = countsTokens ? count(arrival.token) : 1
        for (index, rule) in script.rules.enumerated() {
            if let limit = rule.limit, used[index] >= limit { continue }
            guard rule.condition.holds(for: arrival) else { continue }
            used[index] += 1
            return rule.deed
        }
        return nil
    }

    /// Whether a request for a device token is within the rate per token.
    package mutating func admits(_ token: ArraySlice<UInt8>, at time: Int64) -> Bool {
        guard let rate = script.settings.ratePerToken else { return true }
        let key = Population.hash(token, seed: 0)
        let begin = time - Int64(rate.seconds) * 1_000_000_000
        if times[key] == nil, times.count >= Self.tokenLimit {
            times = times.filter { ($0.value.last ?? 0) > begin }
            guard times.count < Self.tokenLimit else { return true }
        }
        var taken = times[key, default: []]
        taken.removeAll { $0 <= begin }
        let admits = taken.count < rate.requests
        if admits { taken.append(time) }
        times[key] = taken
        return admits
    }

    /// How long an answer waits, in nanoseconds; nil where the script has no latency.
    package mutating func latency() -> Int64? { script.settings.latency?.draw(&random) }

    private mutating func count(_ token: ArraySlice<UInt8>) -> Int {
        let key = Population.hash(token, seed: 0)
        guard let count = ofToken[key] else {
            guard ofToken.count < Self.tokenLimit else { return Int.max }
            ofToken[key] = 1
            return 1
        }
        ofToken[key] = count + 1
        return count + 1
    }
}

/// A script that rules a simulator since a moment; its loops share it.
final class ScriptRun: Sendable {
    let settings: ScriptSettings
    let begunAt = Instant.now()
    private let state: Lock<ScriptState>

    init(_ script: Script) {
        settings = script.settings
        state = Lock(ScriptState(script))
    }

    func deed(for arrival: ScriptArrival) -> Deed? { state.withLock { $0.deed(for: arrival) } }

    func admits(_ token: ArraySlice<UInt8>, at now: Instant) -> Bool {
        guard settings.ratePerToken != nil else { return true }
        return state.withLock { $0.admits(token, at: now - begunAt) }
    }

    func latency() -> Int64? {
        settings.latency == nil ? nil : state.withLock { $0.latency() }
    }
}
