/// Why a campaign or all campaigns of a credential stop.
package enum StopCause: String, Hashable, Sendable, CaseIterable {
    case topic
    case pushType = "push-type"
    case priority
    case expiration
    case collapseID = "collapse-id"
    case payloadEmpty = "payload-empty"
    case payloadTooLarge = "payload-too-large"
    /// Peal formed a request that APNs does not understand.
    case request
    /// Too many answers `BadDeviceToken`.
    case tokenEnvironment = "token-environment"
    /// Too many answers `DeviceTokenNotForTopic`.
    case tokenTopic = "token-topic"
    /// Too many answers of an unknown kind.
    case unknownAnswers = "unknown-answers"
    case certificate
    case keyEnvironment = "key-environment"
    case forbidden
    case providerToken = "provider-token"
    case clock
    /// A 403 with a reason that is not in the table.
    case credentialRefused = "credential-refused"

    /// What stops.
    package enum Scope: Sendable {
        /// This campaign; others go on.
        case campaign
        /// Every campaign of the app's credential.
        case credential
    }

    /// What stops for this cause.
    package var scope: Scope {
        switch self {
        case .certificate, .keyEnvironment, .forbidden, .providerToken, .clock,
            .credentialRefused:
            .credential
        default: .campaign
        }
    }

    /// For operators: the likely cause and the next step, two sentences.
    package var advice: String {
        switch self {
        case .topic:
            "The topic is not allowed for the app's key. Compare the topic in the apps file with "
                + "the bundle id of the app and with the topics of the key."
        case .pushType:
            "APNs does not know the push type or it does not fit the payload. Correct push_type "
                + "in the job and send it under a new id."
        case .priority:
            "The priority does not fit the push type. Use 5 for background pushes, 10 or 5 for "
                + "alerts."
        case .expiration:
            "APNs refuses the expiration. Give expires_at in UNIX seconds or a ttl, not "
                + "milliseconds."
        case .collapseID:
            "The collapse id is longer than 64 bytes. Shorten collapse_id in the job."
        case .payloadEmpty:
            "APNs takes the payload for empty. Check the payload in the job."
        case .payloadTooLarge:
            "The payload is longer than APNs takes. Shorten it to 4096 bytes (5120 for voip)."
        case .request:
            "APNs does not understand the form of the request, which is a fault of this program or "
                + "of a proxy in between. Check the server in the apps file, then report it."
        case .tokenEnvironment:
            "So many refused tokens mean the wrong environment. Compare the environment in the "
                + "apps file with the build that the tokens come from: debug builds are sandbox."
        case .tokenTopic:
            "The tokens belong to another app or kind of push. Compare the audience with the topic "
                + "in the apps file."
        case .unknownAnswers:
            "APNs refuses with a reason that this version does not know. Look it up in Apple's "
                + "list of reasons before you resume."
        case .certificate:
            "The certificate is refused or is for the other environment. Renew it or correct the "
                + "environment in the apps file."
        case .keyEnvironment:
            "The key is for the other environment. Use a key of the app's environment in the apps "
                + "file."
        case .forbidden:
            "Apple forbids this action to the key's team. Check the team's agreements and the "
                + "key's rights in the developer account."
        case .providerToken:
            "APNs refuses a fresh provider token. Check team_id, key_id and key_file in the apps "
                + "file and whether the key was revoked."
        case .clock:
            "A fresh provider token is called expired, so the clock is wrong. Set the clock of "
                + "this machine (NTP) and resume."
        case .credentialRefused:
            "APNs refuses the credential with a reason that this version does not know. Check the "
                + "key in the developer account."
        }
    }
}
