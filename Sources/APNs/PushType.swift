/// The kind of a push, the value of the header `apns-push-type`.
///
/// Source of the values and of the topic suffixes: Apple, "Sending notification requests to APNs".
package enum PushType: String, CaseIterable, Sendable {
    case alert
    case background
    case voip
    case complication
    case fileprovider
    case liveactivity
    case location
    case mdm
    case pushtotalk
    case widgets
    case controls

    /// What follows the bundle id in `apns-topic`.
    ///
    /// For `mdm` the topic is the UID of the push certificate's subject instead of a bundle id.
    package var topicSuffix: String {
        switch self {
        case .alert, .background, .mdm: ""
        case .voip: ".voip"
        case .complication: ".complication"
        case .fileprovider: ".pushkit.fileprovider"
        case .liveactivity: ".push-type.liveactivity"
        case .location: ".location-query"
        case .pushtotalk: ".voip-ptt"
        case .widgets: ".push-type.widgets"
        case .controls: ".push-type.controls"
        }
    }

    /// The value of `apns-topic` for an app; a topic that has the suffix already is left alone.
    package func topic(bundleID: String) -> String {
        bundleID.hasSuffix(topicSuffix) ? bundleID : bundleID + topicSuffix
    }

    /// The largest body in bytes.
    package var payloadLimit: Int { self == .voip ? PayloadLimit.voip : PayloadLimit.standard }

    /// The priority when a job names none: 5 for background pushes, for which Apple calls 10 an
    /// error, and 10, APNs' own default, for all others.
    package var standardPriority: Priority { self == .background ? .conservePower : .immediate }

    /// The priorities that Apple allows for this kind.
    package var priorities: [Priority] {
        switch self {
        case .background: [.conservePower]
        case .liveactivity: [.conservePower, .immediate]
        case .pushtotalk: [.immediate]
        default: Priority.allCases
        }
    }

    /// Whether the payload has an `aps` dictionary; that of device management has none.
    package var needsAps: Bool { self != .mdm }
}

/// The value of the header `apns-priority`.
///
/// Source: Apple, "Sending notification requests to APNs". Some texts swap the meaning of 5 and
/// 10; numbers are therefore never translated, and job files may use the names.
package enum Priority: Int, CaseIterable, Sendable {
    /// At once; the default of APNs when the header is absent.
    case immediate = 10
    /// With regard to the device's power: may be grouped, delayed or dropped.
    case conservePower = 5
    /// Power above all: never wakes the device.
    case lowest = 1

    /// The name in job files.
    package var name: String {
        switch self {
        case .immediate: "immediate"
        case .conservePower: "conserve-power"
        case .lowest: "lowest"
        }
    }

    /// The priority of a name in job files.
    package init?(name: String) {
        guard let priority = Priority.allCases.first(where: { $0.name == name }) else {
            return nil
        }
        self = priority
    }
}

/// The environment that a device token belongs to: the app's build chooses it.
package enum PushEnvironment: String, CaseIterable, Sendable {
    case production
    case sandbox

    /// Apple's host ("Sending notification requests to APNs"); ports 443 and 2197.
    package var host: String {
        switch self {
        case .production: "api.push.apple.com"
        case .sandbox: "api.sandbox.push.apple.com"
        }
    }
}

/// The largest body of a request in bytes; one more is answered with 413 `PayloadTooLarge`.
///
/// Source: Apple, "Generating a remote notification".
package enum PayloadLimit {
    package static let standard = 4096
    package static let voip = 5120
}

/// The names of the headers of requests and answers, lower case as HTTP/2 wants them (RFC 9113,
/// 8.2).
///
/// Source: Apple, "Sending notification requests to APNs" and "Handling notification responses
/// from APNs".
package enum HeaderName {
    package static let authorization = "authorization"
    package static let topic = "apns-topic"
    package static let pushType = "apns-push-type"
    package static let id = "apns-id"
    package static let expiration = "apns-expiration"
    package static let priority = "apns-priority"
    package static let collapseID = "apns-collapse-id"
    /// In answers of the sandbox only: the key of Apple's delivery log.
    package static let uniqueID = "apns-unique-id"
    /// Not in Apple's pages; some texts say that a 410 carries it.
    package static let unlessTimestamp = "apns-unless-timestamp"
    /// Not in Apple's pages; obeyed when it comes (RFC 9110, 10.2.3).
    package static let retryAfter = "retry-after"
}

/// The longest `apns-collapse-id` in bytes; a longer one is answered with 400 `BadCollapseId`.
///
/// Source: Apple, "Sending notification requests to APNs".
package enum CollapseID {
    package static let maximumBytes = 64
}
