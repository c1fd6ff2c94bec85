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

    /// The HTTP status, 0 for none.
    package var status: Int {
        switch self {
        case .accepted: 200
        case .refused(let fault, _): fault.status
        case .silence: 0
        }
    }

    /// The JSON body, empty for 200.
    var body: [UInt8] {
        guard case .refused(let fault, let timestamp) = self else { return [] }
        guard let timestamp else { return Array(#"{"reason":"\#(fault.rawValue)"}"#.utf8) }
        return Array(#"{"reason":"\#(fault.rawValue)","timestamp":\#(timestamp)}"#.utf8)
    }
}
