package import APNs
internal import Base
internal import Crypto
package import JSON

/// A campaign job as a backend enqueues it, checked and with its defaults filled in.
package struct Job: Equatable, Sendable {
    /// The version of the job format that this program reads.
    package static let version: Int64 = 1
    /// The longest job in bytes.
    package static let maximumBytes = 16 << 20
    /// How long APNs keeps a notification when the job says nothing, in seconds: the 30 days that
    /// Apple names as its longest storage.
    package static let standardTTL: Int64 = 30 * 86_400

    /// Names the campaign: 1 to 64 letters, digits, dots, underscores and dashes.
    package let id: String
    /// Names the app's profile in the worker's configuration.
    package let app: String
    /// The environment that the job insists on.
    package let environment: PushEnvironment?
    package let pushType: PushType
    /// The body of every request: canonical JSON.
    package let payload: [UInt8]
    package let priority: Priority
    package let expiration: Expiration
    package let collapseID: String?
    package let audience: Audience
    /// Milliseconds since the epoch after which nothing is sent; what is left is expired.
    package let deadline: Int64?
    package let onUnknown: OnUnknown
    package let retry: RetryPolicy
    /// The campaign's share of the workers relative to others, 1 to 10.
    package let weight: Int
    /// The whole job as canonical JSON; equal jobs have equal bytes.
    package let canonical: [UInt8]

    /// Until when APNs may keep a notification for a device that is offline.
    package enum Expiration: Equatable, Sendable {
        /// UNIX seconds; 0 means one attempt and no storage.
        case at(Int64)
        /// Seconds from the sending.
        case after(Int64)
    }

    /// What becomes of a notification that was sent and never answered.
    package enum OnUnknown: String, CaseIterable, Sendable {
        /// Sent again once: nobody is lost, a device may show it twice.
        case resend
        /// Never sent again: nobody gets it twice, it ends as unknown.
        case skip

        /// How often it is sent again.
        package var tries: Int { self == .resend ? RetryPolicy.unknownTries : 0 }
    }

    /// The value of `apns-expiration`.
    ///
    /// - Parameter now: Milliseconds since the epoch.
    /// - Returns: UNIX seconds, or 0 for one attempt.
    package func wireExpiration(now: Int64) -> Int64 {
        switch expiration {
        case .at(let seconds): seconds
        case .after(0): 0
        case .after(let seconds): now / 1000 + seconds
        }
    }

    /// The earlier of the deadline and an absolute expiration: nothing is sent from then on
    /// (milliseconds since the epoch).
    package var lastMoment: Int64? {
        guard case .at(let seconds) = expiration, seconds > 0 else { return deadline }
        return min(deadline ?? Int64.max, seconds * 1000)
    }

    /// Whether at `now` (milliseconds since the epoch) the deadline or the expiration has passed,
    /// so that nothing may be sent any more.
    package func isOver(now: Int64) -> Bool { lastMoment.map { now >= $0 } ?? false }

    /// The fault of a job that insists on another environment than its app's profile has.
    package func fault(profileEnvironment: PushEnvironment) -> JobFault? {
        guard let environment, environment != profileEnvironment else { return nil }
        return JobFault(
            path: "$.environment",
            message: "is \"\(environment.rawValue)\", but the app \"\(app)\" is set up for "
                + "\(profileEnvironment.rawValue); correct the job or the apps file")
    }

    /// The digest that tells whether two jobs with one id are the same job: SHA-256 of the
    /// canonical text, in lower-case hexadecimal digits.
    package var digest: String { Hex.encode(SHA256.hash(canonical)) }
}

/// One thing that is wrong with a job, with its JSON path.
package typealias JobFault = JSONFault

/// Everything that is wrong with a job.
package struct JobFaults: Error, Equatable, CustomStringConvertible {
    /// The job's id, if it could be read.
    package let id: String?
    /// The job's app, if it could be read.
    package let app: String?
    /// At least one.
    package let faults: [JobFault]

    package init(id: String?, app: String? = nil, faults: [JobFault]) {
        self.id = id
        self.app = app
        self.faults = faults
    }

    /// All of them in one line.
    package var description: String { faults.map(\.description).joined(separator: "; ") }
}
