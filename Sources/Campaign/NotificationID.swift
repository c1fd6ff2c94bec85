internal import Base

/// The `apns-id` of one recipient of one campaign: always the same, so that a notification sent
/// again carries the id of the first time ("Sending notification requests to APNs": apns-id).
///
/// A UUID of version 8 (RFC 9562) made of two keyed hashes of the token.
package struct NotificationID: Sendable {
    private let high: SipHash
    private let low: SipHash

    package init(campaign: String) {
        let seed = SipHash(key0: 0x7065_616C, key1: 0x6170_6E73)
        let key = seed.hash(Array(campaign.utf8))
        high = SipHash(key0: key, key1: 1)
        low = SipHash(key0: key, key1: 2)
    }

    /// The two halves of the UUID, most significant byte first.
    package func make(_ token: UnsafeRawBufferPointer) -> (UInt64, UInt64) {
        let first = high.hash(token) & ~0xF000 | 0x8000
        let second = low.hash(token) & ~(0xC000_0000_0000_0000) | 0x8000_0000_0000_0000
        return (first, second)
    }
}
