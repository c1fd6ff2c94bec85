/// What went wrong between us and Redis.
package struct RedisError: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Code: Sendable, Equatable {
        /// No connection could be made: nothing was executed.
        case unreachable
        /// The connection broke or no reply came in time: the command may have been executed.
        case lost
        /// Executed, but fewer replicas than asked for acknowledged it: a failover may undo it.
        case unconfirmed
        /// Redis answered with an error.
        case refused
        /// This Redis cannot be used as it is (version, policy).
        case unsuitable
    }

    package let code: Code
    package let description: String

    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// What an error reply means, and to what it was given: with a missing right, what to allow.
    ///
    /// - `what`: the command with its keys, or the script.
    package init(reply text: String, to what: String) {
        let error = RedisError(.refused, text)
        guard error.word == "NOPERM" else {
            self = error
            return
        }
        self.init(
            .refused,
            "NOPERM Redis' user lacks a right for \(what) (\(text)); ACL LOG names what was "
                + "refused, allow it with ACL SETUSER")
    }

    /// The first word of Redis' error, such as `OOM`, `NOSCRIPT` or `LOADING`; empty for other
    /// codes.
    ///
    /// What a script may not do has the word `NOPERM`, too: Redis 7.0 says `ERR` for it.
    package var word: String {
        guard code == .refused else { return "" }
        if description.hasPrefix("ERR The user executing the script can't") { return "NOPERM" }
        return String(description.prefix { $0 != " " })
    }

    /// Redis may be all right again in a while; the same call may be repeated unchanged.
    package var isTransient: Bool {
        switch code {
        case .unreachable, .lost, .unconfirmed: true
        case .unsuitable: false
        case .refused:
            [
                "LOADING", "READONLY", "MASTERDOWN", "UNBLOCKED", "NOREPLICAS", "MISCONF",
                "CLUSTERDOWN", "TRYAGAIN", "BUSY", "OOM",
            ].contains(word)
        }
    }

    /// Somebody has to repair something at Redis: rights, a password, a setting.
    ///
    /// After that the same call succeeds. At the start it is a wrong configuration; a running
    /// worker keeps its answers and waits.
    package var isRepairable: Bool {
        code == .unsuitable || ["NOPERM", "NOAUTH", "WRONGPASS", "NOSCRIPT"].contains(word)
    }

    /// What a running worker waits for the end of, whatever it takes.
    package var isWaitedOut: Bool { isTransient || isRepairable }

    /// The Redis at the other end is not, or no longer, the one to write to: the next call has to
    /// look for the master again.
    ///
    /// NOREPLICAS is among them since a master that was replaced says it until it is told; NOAUTH
    /// since signing in is done with connecting.
    var isMisplaced: Bool {
        [
            "LOADING", "READONLY", "MASTERDOWN", "UNBLOCKED", "NOREPLICAS", "CLUSTERDOWN", "NOAUTH",
        ].contains(word)
    }
}
