internal import Base

/// The reasons the simulator answers with, each with its status.
///
/// A table of its own: the judge does not share the player's. Spellings and statuses are those of
/// "Handling notification responses from APNs".
package enum Fault: String, Sendable, CaseIterable {
    case badCollapseID = "BadCollapseId"
    case badDeviceToken = "BadDeviceToken"
    case badExpirationDate = "BadExpirationDate"
    case badMessageID = "BadMessageId"
    case badPriority = "BadPriority"
    case badTopic = "BadTopic"
    case duplicateHeaders = "DuplicateHeaders"
    case invalidPushType = "InvalidPushType"
    case missingDeviceToken = "MissingDeviceToken"
    case missingTopic = "MissingTopic"
    case payloadEmpty = "PayloadEmpty"
    case topicDisallowed = "TopicDisallowed"
    case expiredProviderToken = "ExpiredProviderToken"
    case invalidProviderToken = "InvalidProviderToken"
    case missingProviderToken = "MissingProviderToken"
    case unrelatedKeyID = "UnrelatedKeyIdInToken"
    case badPath = "BadPath"
    case methodNotAllowed = "MethodNotAllowed"
    case expiredToken = "ExpiredToken"
    case unregistered = "Unregistered"
    case payloadTooLarge = "PayloadTooLarge"
    case tooManyProviderTokenUpdates = "TooManyProviderTokenUpdates"
    case tooManyRequests = "TooManyRequests"
    case serviceUnavailable = "ServiceUnavailable"

    package var status: Int {
        switch self {
        case .badCollapseID, .badDeviceToken, .badExpirationDate, .badMessageID, .badPriority,
            .badTopic, .duplicateHeaders, .invalidPushType, .missingDeviceToken, .missingTopic,
            .payloadEmpty, .topicDisallowed:
            400
        case .expiredProviderToken, .invalidProviderToken, .missingProviderToken, .unrelatedKeyID:
            403
        case .badPath: 404
        case .methodNotAllowed: 405
        case .expiredToken, .unregistered: 410
        case .payloadTooLarge: 413
        case .tooManyProviderTokenUpdates, .tooManyRequests: 429
        case .serviceUnavailable: 503
        }
    }
}

/// What becomes of one request.
package enum Answer: Sendable, Equatable {
    /// 200: accepted.
    case accepted
    /// An error with its reason; `timestamp` (milliseconds since the epoch) for 410 only.
    case refused(Fault, timestamp: Int64?)
    /// No answer ever comes.
    case silence
    /// As a script spells it out.
    case scripted(ScriptedAnswer)

    /// The HTTP status, 0 for none.
    package var status: Int {
        switch self {
        case .accepted: 200
        case .refused(let fault, _): fault.status
        case .silence: 0
        case .scripted(let answer): answer.status
        }
    }

    /// The reason, or nil where there is none.
    var reason: String? {
        switch self {
        case .accepted, .silence: nil
        case .refused(let fault, _): fault.rawValue
        case .scripted(let answer): answer.reason
        }
    }

    /// What becomes of the request.
    var verdict: Verdict {
        switch self {
        case .silence: .unprocessed
        case .accepted: .accepted
        case .refused, .scripted: status == 200 ? .accepted : .refused
        }
    }

    /// - Parameter now: milliseconds since the epoch.
    /// - Returns: The JSON body, empty for 200.
    func body(now: Int64) -> [UInt8] {
        switch self {
        case .accepted, .silence: return []
        case .scripted(let answer): return answer.body(now: now)
        case .refused(let fault, let timestamp):
            guard let timestamp else { return Array(#"{"reason":"\#(fault.rawValue)"}"#.utf8) }
            return Array(#"{"reason":"\#(fault.rawValue)","timestamp":\#(timestamp)}"#.utf8)
        }
    }
}

/// What became of a request on the simulator's side, told or not.
package enum Verdict: String, Sendable {
    /// A push that counts as sent.
    case accepted
    /// Judged and refused.
    case refused
    /// Nobody looked at it.
    case unprocessed
}

/// A request that was judged, and what is to be said about it.
struct Reply {
    /// When the request was read.
    let moment: Instant
    let stream: Int32
    /// As it stood in the path.
    let token: ArraySlice<UInt8>
    /// The `apns-id` of the answer.
    let id: [UInt8]
    let answer: Answer
    var verdict: Verdict

    init(
        moment: Instant, stream: Int32, token: ArraySlice<UInt8>, id: [UInt8], answer: Answer,
        verdict: Verdict? = nil
    ) {
        self.moment = moment
        self.stream = stream
        self.token = token
        self.id = id
        self.answer = answer
        self.verdict = verdict ?? answer.verdict
    }
}
