/// When a notification that was not accepted is tried again.
///
/// "Tries" are the charged tries so far, as the ledger's digits count them: 1 after the first
/// answer that asks for another try. A limit of 5 allows five more sends after the first one. The
/// random fraction is from 0 up to 1; the table shows 0 and 1.
///
/// | kind | tries | delay with the defaults |
/// | --- | --- | --- |
/// | tooManyRequests | 1 | 0 to 2 s |
/// | tooManyRequests | 2 | 0 to 4 s |
/// | tooManyRequests | 3 | 0 to 8 s |
/// | tooManyRequests | 5 | 0 to 32 s |
/// | tooManyRequests | 6 | none: rejected |
/// | tooManyRequests, 9 allowed | 9 | 0 to 300 s (512 without the cap) |
/// | serverError | 1 | 900 to 1800 s |
/// | serverError | 2 | 900 to 2700 s |
/// | serverError | 3 | 900 to 4500 s |
/// | serverError | 4 | none: rejected |
/// | elsewhere | 1 to 3 | 0, not charged, own count |
/// | elsewhere | 4 | none |
/// | unknown | 1 | 0 to 2 s, own count |
/// | unknown | 2 | none: unknown |
package struct RetryPolicy: Equatable, Sendable {
    /// The most tries that a ledger byte can count.
    package static let maximumTries = 9
    /// Sends again that were proven not to be processed, in a row.
    package static let elsewhereTries = 3
    /// Sends again of a notification without an answer, under `resend`.
    package static let unknownTries = 1

    /// More sends after 429.
    package var maxTries = 5
    /// The first delay's upper end after 429, in milliseconds.
    package var baseDelay: Int64 = 2000
    /// The highest upper end after 429, in milliseconds.
    package var maxDelay: Int64 = 300_000
    /// The lower end after a 5xx in seconds; Apple asks for 15 minutes.
    package var serverErrorDelay: Int64 = 900
    /// More sends after a 5xx.
    package var serverErrorTries = 3

    package init() {}

    /// Why it is tried again.
    package enum Kind: Sendable, CaseIterable {
        /// 429 `TooManyRequests`; charged.
        case tooManyRequests
        /// 5xx; charged.
        case serverError
        /// Proven not processed; `tries` counts these only.
        case elsewhere
        /// No answer, under `resend`; `tries` counts these only.
        case unknown
    }

    /// The delay before the next send.
    ///
    /// Exponential with full jitter, so that recipients refused together do not come back
    /// together.
    ///
    /// - Parameters:
    ///   - kind: Why.
    ///   - tries: How often so far, from 1.
    ///   - random: A random fraction, from 0 up to 1.
    ///   - retryAfter: Seconds that the answer asked for; a lower bound.
    /// - Returns: Nanoseconds, or nil when there is no next send.
    package func delay(
        _ kind: Kind, tries: Int, random: Double, retryAfter: Int64 = 0
    ) -> Int64? {
        precondition(tries >= 1, "A try is counted before its delay is asked for.")
        guard tries <= limit(kind) else { return nil }
        let factor = Double(1 << min(tries - 1, 30))
        let seconds: Double
        switch kind {
        case .elsewhere: seconds = 0
        case .serverError:
            seconds = Double(serverErrorDelay) * (1 + random * factor)
        case .tooManyRequests:
            seconds = random * min(Double(baseDelay) * factor, Double(maxDelay)) / 1000
        case .unknown: seconds = random * Double(baseDelay) / 1000
        }
        return Int64(max(seconds, Double(retryAfter)) * 1_000_000_000)
    }

    private func limit(_ kind: Kind) -> Int {
        switch kind {
        case .tooManyRequests: min(maxTries, Self.maximumTries)
        case .serverError: min(serverErrorTries, Self.maximumTries)
        case .elsewhere: Self.elsewhereTries
        case .unknown: Self.unknownTries
        }
    }
}
