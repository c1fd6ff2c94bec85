internal import Base

/// The checks of strict mode on one request, in an order in which the most global fault wins.
///
/// 1. Path and method. 2. Repeated header fields. 3. The provider token (by the caller, through
/// `authenticate`, since it depends on the connection). 4. `apns-id`, topic, push type, priority,
/// expiration, collapse id. 5. The payload. 6. The form of the device token.
///
/// APNs' own order is not known. What each field may hold is from "Sending notification requests to
/// APNs" (size, priority, expiration, collapse id of at most 64 bytes).
package struct RequestCheck: Sendable {
    /// The longest device token in hexadecimal digits.
    ///
    /// Apple promises no length; this bounds the record.
    package static let tokenDigitsLimit = 512
    /// The longest collapse id in bytes.
    package static let collapseIDLimit = 64

    private let topics: Set<[UInt8]>

    /// - Parameter topics: bundle IDs that may be pushed to; empty for any.
    package init(topics: [String]) { self.topics = Set(topics.map { Array($0.utf8) }) }

    /// The first fault of `request`, or nil.
    package func fault(
        in request: PushRequest, authenticate: (ArraySlice<UInt8>?) -> Fault?
    ) -> Fault? {
        guard let token = request.token else { return .badPath }
        guard let method = request.method, request.equals(method, Self.post) else {
            return .methodNotAllowed
        }
        guard !token.isEmpty else { return .missingDeviceToken }
        guard !request.hasDuplicates else { return .duplicateHeaders }
        if let fault = authenticate(request.authorization.map { request.memory[$0] }) {
            return fault
        }
        if let fault = headerFault(request) { return fault }
        if let fault = payloadFault(request) { return fault }
        return tokenFault(request.memory[token])
    }

    private func headerFault(_ request: PushRequest) -> Fault? {
        if let id = request.id, !Self.isUUID(request.memory[id]) { return .badMessageID }
        guard let topic = request.topic, !topic.isEmpty else { return .missingTopic }
        guard topic.count <= 255, request.memory[topic].allSatisfy(Self.isTopicByte) else {
            return .badTopic
        }
        var kind = PushKind.alert
        if let type = request.pushType {
            guard let named = PushKind.named(request.memory[type]) else { return .invalidPushType }
            kind = named
        }
        if let fault = topicFault(request.memory[topic], kind) { return fault }
        if let priority = request.priority {
            switch request.memory[priority] {
            case Self.ten: if kind == .background { return .badPriority }
            case Self.five, Self.one: break
            default: return .badPriority
            }
        }
        if let expiration = request.expiration {
            guard (1...18).contains(expiration.count),
                request.memory[expiration].allSatisfy({ (0x30...0x39).contains($0) })
            else { return .badExpirationDate }
        }
        if let id = request.collapseID, id.count > Self.collapseIDLimit { return .badCollapseID }
        return nil
    }

    private func topicFault(_ topic: ArraySlice<UInt8>, _ kind: PushKind) -> Fault? {
        guard let suffix = kind.topicSuffix else { return nil }
        guard topic.count > suffix.utf8.count,
            topic.suffix(suffix.utf8.count).elementsEqual(suffix.utf8)
        else { return .badTopic }
        guard !topics.isEmpty else { return nil }
        return topics.contains(Array(topic.dropLast(suffix.utf8.count))) ? nil : .topicDisallowed
    }

    /// The size, and whether it looks like a JSON object at all; APNs' own answer to other text is
    /// not known.
    private func payloadFault(_ request: PushRequest) -> Fault? {
        guard request.bodyCount > 0 else { return .payloadEmpty }
        let kind = request.pushType.flatMap { PushKind.named(request.memory[$0]) } ?? .alert
        guard request.bodyCount <= kind.payloadLimit else { return .payloadTooLarge }
        let isSpace: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x0A || $0 == 0x0D || $0 == 0x09 }
        guard request.body.first(where: { !isSpace($0) }) == 0x7B,
            request.body.last(where: { !isSpace($0) }) == 0x7D
        else { return .payloadEmpty }
        return nil
    }

    private func tokenFault(_ token: ArraySlice<UInt8>) -> Fault? {
        guard token.count % 2 == 0, token.count <= Self.tokenDigitsLimit,
            token.allSatisfy({ Hex.value($0) != nil })
        else { return .badDeviceToken }
        return nil
    }

    /// The form 8-4-4-4-12 in hexadecimal digits of either case (RFC 9562 section 4).
    static func isUUID(_ bytes: ArraySlice<UInt8>) -> Bool {
        guard bytes.count == 36 else { return false }
        for (index, byte) in bytes.enumerated() {
            switch index {
            case 8, 13, 18, 23: guard byte == 0x2D else { return false }
            default: guard Hex.value(byte) != nil else { return false }
            }
        }
        return true
    }

    private static func isTopicByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: true
        default: false
        }
    }

    private static let post = Array("POST".utf8)
    private static let ten = Array("10".utf8)[...]
    private static let five = Array("5".utf8)[...]
    private static let one = Array("1".utf8)[...]
}
