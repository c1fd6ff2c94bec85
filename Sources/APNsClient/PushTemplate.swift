package import APNs
internal import Base

/// What all notifications of one campaign have in common, as the bytes that go on the wire.
///
/// Immutable after it was made; connections keep it alive while its requests are open.
package final class PushTemplate: @unchecked Sendable {
    /// `apns-topic` and the other constant fields, name and value each.
    let fields: [(name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>)]
    let payload: UnsafeRawBufferPointer
    private let memory: UnsafeMutablePointer<UInt8>

    /// Lays the bytes out once.
    ///
    /// - Parameters:
    ///   - topic: Bundle id with the suffix of the push type.
    ///   - pushType: The value of `apns-push-type`.
    ///   - priority: The value of `apns-priority`.
    ///   - expiration: Seconds since the epoch, 0 for a single attempt, nil to leave it to APNs.
    ///   - collapseID: At most 64 bytes.
    ///   - payload: The body as it is sent, at most 4096 bytes (5120 for VoIP).
    package init(
        topic: String, pushType: PushType, priority: Int, expiration: Int64?,
        collapseID: String?, payload: [UInt8]
    ) {
        var texts: [(String, String)] = [
            ("apns-topic", topic), ("apns-push-type", pushType.rawValue),
            ("apns-priority", String(priority)),
        ]
        if let expiration { texts.append(("apns-expiration", String(expiration))) }
        if let collapseID { texts.append(("apns-collapse-id", collapseID)) }
        let size = texts.reduce(payload.count) { $0 + $1.0.utf8.count + $1.1.utf8.count }
        let memory = UnsafeMutablePointer<UInt8>.allocate(capacity: size + 1)
        var end = 0
        func place(_ bytes: some Collection<UInt8>) -> UnsafeBufferPointer<UInt8> {
            let start = memory + end
            var count = 0
            for byte in bytes {
                start[count] = byte
                count += 1
            }
            end += count
            return UnsafeBufferPointer(start: start, count: count)
        }
        var placed: [(name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>)] = []
        for (name, value) in texts { placed.append((place(name.utf8), place(value.utf8))) }
        fields = placed
        self.payload = UnsafeRawBufferPointer(place(payload))
        self.memory = memory
    }

    deinit { memory.deallocate() }
}
