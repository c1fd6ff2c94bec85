package import Base

/// What a script changes for all requests.
///
/// `rate…`, `jwt…` and the like that a script leaves out stay as the simulator was started.
package struct ScriptSettings: Sendable, Equatable {
    /// The time from a request to its answer: half of the ordinary ones wait less than `median`
    /// (evenly between 0.5 and 1.5 times of it), a `tailShare` of all waits `tail`.
    package struct Latency: Sendable, Equatable {
        /// Nanoseconds.
        package var median: Int64 = 0
        package var tailShare = 0.0
        /// Nanoseconds.
        package var tail: Int64 = 0

        package func draw(_ random: inout SeededRandom) -> Int64 {
            let (kind, place) = (random.fraction(), random.fraction())
            return kind < tailShare ? tail : Int64(Double(median) * (0.5 + place))
        }
    }

    /// At most `requests` for one device token within any `seconds`.
    package struct TokenRate: Sendable, Equatable {
        package static let requestLimit: Int64 = 100
        package let requests: Int
        package let seconds: Int
    }

    /// Chooses among latencies.
    package var seed: UInt64 = 1
    package var latency: Latency?
    /// Requests per second and connection before the headroom; 0 for no limit.
    package var ratePerConnection: Int?
    package var ratePerToken: TokenRate?
    /// Seconds.
    package var tokenMaximumAge: Int64?
    /// Whether a connection may change its provider token only every 20 minutes.
    package var hasUpdateRule = true
    /// Streams before the first good provider token, and after it.
    package var streamsAtFirst = 1
    package var streamsLater = 1000
    package var errorScore: ErrorScore.Rule?
    /// Whether a 410 has its time also in `apns-unless-timestamp`.
    package var emitsUnlessTimestamp = true
    /// Whether a client must offer `h2` in the TLS handshake.
    package var requiresALPN = true
    /// A `date` field on all answers, so many seconds ahead of the clock; nil for none.
    package var dateSkew: Int64?
    /// The window of each stream in bytes, and whether windows are refilled.
    package var initialWindow = 65_535
    package var updatesWindow = true

    package init() {}
}

/// What errors of a connection do to it.
///
/// APNs slows a connection down that gets many errors, and ends it; its measure is not known. Ours:
///
/// | answer | points |
/// | --- | --- |
/// | 200, 410, 5xx | 0 |
/// | 400 `BadDeviceToken` | 5 |
/// | any other 4xx | 1 |
///
/// From `limitAt` points on each error lowers the stream limit to 1 until the next 200; at
/// `goAwayAt` the connection ends with GOAWAY and the rule's reason.
package struct ErrorScore: Sendable {
    package struct Rule: Sendable, Equatable {
        /// Points; 0 for never.
        package var limitAt = 10
        package var goAwayAt = 50
        package var reason = "TooManyRequests"

        package init() {}
    }
    package enum Step: Sendable, Equatable { case nothing, lower, restore, goAway }

    package private(set) var points = 0
    private var isLowered = false

    package init() {}

    /// Notes an answer and says what it does to the connection.
    package mutating func note(status: Int, reason: String?, rule: Rule) -> Step {
        if status == 200 {
            defer { isLowered = false }
            return isLowered ? .restore : .nothing
        }
        guard (400...499).contains(status), status != 410 else { return .nothing }
        points += status == 400 && reason == Fault.badDeviceToken.rawValue ? 5 : 1
        if rule.goAwayAt > 0, points >= rule.goAwayAt { return .goAway }
        guard rule.limitAt > 0, points >= rule.limitAt, !isLowered else { return .nothing }
        isLowered = true
        return .lower
    }
}
