/// The `reason` of an answer.
///
/// Apple's list is open: a text that is not in the table is kept as it came.
package struct Reason: Hashable, Sendable, CustomStringConvertible {
    /// The longest text that is kept of an unknown reason, in bytes.
    package static let maximumBytes = 64

    /// The reason's row in the table, or nil for one that is not there.
    package let known: Known?
    private let raw: String

    /// The reason of a text; both spellings of one reason give the same value.
    ///
    /// An unknown text is cut at 64 bytes and reduced to printable ASCII, since it becomes part of
    /// the name of a counter.
    package init(_ text: String) {
        known = Known(rawValue: text) ?? Known.otherSpellings[text]
        guard known == nil else {
            raw = ""
            return
        }
        let bytes = text.utf8.prefix(Self.maximumBytes).map {
            (0x21...0x7E).contains($0) ? $0 : UInt8(ascii: "?")
        }
        raw = String(decoding: bytes, as: UTF8.self)
    }

    /// A reason of the table.
    package init(_ known: Known) {
        self.known = known
        raw = ""
    }

    /// The text as Apple documents it, or as it came.
    package var text: String { known?.rawValue ?? raw }
    package var description: String { text }

    /// The reasons that Apple documents for pushes to a device.
    ///
    /// Source: Apple, "Handling notification responses from APNs".
    package enum Known: String, CaseIterable, Sendable {
        case badCollapseID = "BadCollapseId"
        case badDeviceToken = "BadDeviceToken"
        case badExpirationDate = "BadExpirationDate"
        case badMessageID = "BadMessageId"
        case badPriority = "BadPriority"
        case badTopic = "BadTopic"
        case deviceTokenNotForTopic = "DeviceTokenNotForTopic"
        case duplicateHeaders = "DuplicateHeaders"
        case idleTimeout = "IdleTimeout"
        case invalidPushType = "InvalidPushType"
        case missingDeviceToken = "MissingDeviceToken"
        case missingTopic = "MissingTopic"
        case payloadEmpty = "PayloadEmpty"
        case topicDisallowed = "TopicDisallowed"
        case badCertificate = "BadCertificate"
        case badCertificateEnvironment = "BadCertificateEnvironment"
        case expiredProviderToken = "ExpiredProviderToken"
        case forbidden = "Forbidden"
        case invalidProviderToken = "InvalidProviderToken"
        case missingProviderToken = "MissingProviderToken"
        case unrelatedKeyID = "UnrelatedKeyIdInToken"
        case badEnvironmentKeyID = "BadEnvironmentKeyIdInToken"
        case topicMismatch = "TopicMismatch"
        case badPath = "BadPath"
        case methodNotAllowed = "MethodNotAllowed"
        case expiredToken = "ExpiredToken"
        case unregistered = "Unregistered"
        case payloadTooLarge = "PayloadTooLarge"
        case tooManyProviderTokenUpdates = "TooManyProviderTokenUpdates"
        case tooManyRequests = "TooManyRequests"
        case internalServerError = "InternalServerError"
        case serviceUnavailable = "ServiceUnavailable"
        case shutdown = "Shutdown"

        /// Spellings beside Apple's own: one page prints a space, and the wire has shown the other
        /// key reason without `Id`.
        static let otherSpellings: [String: Known] = [
            "Service Unavailable": .serviceUnavailable,
            "BadEnvironmentKeyInToken": .badEnvironmentKeyID,
        ]

        /// The status that Apple documents for the reason.
        package var usualStatus: Int { row.status }

        /// The one table: the reason's usual status and the reaction to it under any status.
        ///
        /// Apple forbids another try for `BadDeviceToken`, `DeviceTokenNotForTopic`, `Forbidden`,
        /// `ExpiredToken`, `Unregistered` and `PayloadTooLarge`, and asks for 15 minutes before
        /// one after a 5xx; the rest is our reading of the same page and of field reports.
        var row: (status: Int, reaction: Reaction) {
            switch self {
            case .badCollapseID: (400, Reaction(.stop(.collapseID)))
            case .badDeviceToken: (400, Reaction(.quarantine))
            case .badExpirationDate: (400, Reaction(.stop(.expiration)))
            case .badMessageID: (400, Reaction(.stop(.request)))
            case .badPriority: (400, Reaction(.stop(.priority)))
            case .badTopic: (400, Reaction(.stop(.topic)))
            case .deviceTokenNotForTopic: (400, Reaction(.quarantine))
            case .duplicateHeaders: (400, Reaction(.stop(.request)))
            case .idleTimeout: (400, Reaction(.retry(.elsewhere), .drain))
            case .invalidPushType: (400, Reaction(.stop(.pushType)))
            case .missingDeviceToken: (400, Reaction(.reject))
            case .missingTopic: (400, Reaction(.stop(.topic)))
            case .payloadEmpty: (400, Reaction(.stop(.payloadEmpty)))
            case .topicDisallowed: (400, Reaction(.stop(.topic)))
            case .badCertificate: (403, Reaction(.stop(.certificate), .close))
            case .badCertificateEnvironment: (403, Reaction(.stop(.certificate), .close))
            case .expiredProviderToken:
                (403, Reaction(.providerToken(.expired), .close, .renew))
            case .forbidden: (403, Reaction(.stop(.forbidden), .close))
            case .invalidProviderToken:
                (403, Reaction(.providerToken(.invalid), .close, .renew))
            case .missingProviderToken: (403, Reaction(.stop(.request)))
            case .unrelatedKeyID: (403, Reaction(.retry(.elsewhere), .drain))
            case .badEnvironmentKeyID: (403, Reaction(.stop(.keyEnvironment), .close))
            case .topicMismatch: (403, Reaction(.stop(.topic)))
            case .badPath: (404, Reaction(.stop(.request)))
            case .methodNotAllowed: (405, Reaction(.stop(.request)))
            case .expiredToken: (410, Reaction(.gone))
            case .unregistered: (410, Reaction(.gone))
            case .payloadTooLarge: (413, Reaction(.stop(.payloadTooLarge)))
            case .tooManyProviderTokenUpdates: (429, Reaction(.retry(.elsewhere), .close, .hold))
            case .tooManyRequests: (429, Reaction(.retry(.tooManyRequests)))
            case .internalServerError: (500, Reaction(.retry(.serverError)))
            case .serviceUnavailable: (503, Reaction(.retry(.serverError)))
            case .shutdown: (503, Reaction(.retry(.serverError), .drain))
            }
        }
    }
}
