package import Redis

extension JobStore {
    /// What one call of the clean-up did.
    package enum CleanUp: Sendable, Equatable {
        /// No campaign is old enough.
        case none
        /// Somebody removed a part a moment ago.
        case wait
        /// A part of this campaign was removed; more is left.
        case part(String)
        /// The last part of this campaign was removed.
        case gone(String)
    }

    /// Removes one part of the campaign that ended longest ago, when it ended more than
    /// `keptMilliseconds` ago.
    ///
    /// - `pause`: milliseconds between two parts, whichever workers ask.
    package func cleanUp(
        keptMilliseconds: Int64, pause: Int
    ) throws(RedisError) -> CleanUp {
        let reply = try run(Scripts.retire, [String(keptMilliseconds), String(pause)])
        let words = (reply.array ?? []).compactMap(\.string)
        switch (words.first, words.count) {
        case ("wait", _): return .wait
        case ("part", 2): return .part(words[1])
        case ("gone", 2): return .gone(words[1])
        default: return .none
        }
    }

    /// Writes a key that expires, which Redis refuses when it can take no new data: a PING is
    /// answered even then.
    package func probe(worker: String) throws(RedisError) {
        try redis.command("SET", key("probe:\(worker)"), "1", "PX", "60000")
    }
}
