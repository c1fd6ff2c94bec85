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

    /// The first word of Redis' error, such as `OOM`, `NOSCRIPT` or `LOADING`; empty for other
    /// codes.
    package var word: String {
        code == .refused ? String(description.prefix { $0 != " " }) : ""
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

    /// The Redis at the other end is not, or no longer, the one to write to: the next call has to
    /// look for the master again.
    ///
    /// NOREPLICAS is among them since a master that was replaced says it until it is told.
    var isMisplaced: Bool {
        [
            "LOADING", "READONLY", "MASTERDOWN", "UNBLOCKED", "NOREPLICAS", "CLUSTERDOWN",
        ].contains(word)
    }
}
