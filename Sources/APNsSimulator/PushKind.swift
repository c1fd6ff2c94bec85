/// The values of `apns-push-type` and what each asks of the topic and the payload.
///
/// From "Sending notification requests to APNs". The simulator's own table.
enum PushKind: String, CaseIterable {
    case alert, background, voip, complication, fileprovider, liveactivity, location, mdm
    case pushtotalk, widgets, controls

    /// What follows the bundle ID in the topic; nil where the topic is no bundle ID.
    var topicSuffix: String? {
        switch self {
        case .alert, .background: ""
        case .voip: ".voip"
        case .complication: ".complication"
        case .fileprovider: ".pushkit.fileprovider"
        case .liveactivity: ".push-type.liveactivity"
        case .location: ".location-query"
        case .mdm: nil
        case .pushtotalk: ".voip-ptt"
        case .widgets: ".push-type.widgets"
        case .controls: ".push-type.controls"
        }
    }

    /// The largest body in bytes: 5120 for VoIP, otherwise 4096.
    var payloadLimit: Int { self == .voip ? 5120 : 4096 }

    static func named(_ bytes: ArraySlice<UInt8>) -> PushKind? {
        table.first { bytes.elementsEqual($0.name) }?.kind
    }

    private static let table = allCases.map { (name: Array($0.rawValue.utf8), kind: $0) }
}
