internal import Base

/// Which device tokens fare otherwise than 200: shares of all tokens, decided by a hash of the seed
/// and the token, so that a run repeats.
///
/// A token's place is `SipHash-2-4(key0: seed, key1: 0x7065616C)` over its hexadecimal digits in
/// lower case; the upper 53 bits as a fraction of 1 fall into the shares laid end to end in the
/// order gone, bad, too many, unavailable, unanswered. With `gone` 2 % and `bad` 0.5 %:
///
/// | fraction | answer |
/// | --- | --- |
/// | 0 to 0.02 | 410, one in eight `ExpiredToken`, the others `Unregistered` |
/// | 0.02 to 0.025 | 400 `BadDeviceToken` |
/// | 0.025 to 1 | 200 |
///
/// The last three shares are of tokens that fail 1, 2 or 3 times (the hash's lower 11 bits modulo
/// 3, plus 1) and are then accepted.
package struct Population: Sendable {
    /// Shares between 0 and 1, together at most 1.
    package var gone = 0.0
    package var bad = 0.0
    package var tooMany = 0.0
    package var unavailable = 0.0
    package var unanswered = 0.0
    package var seed: UInt64 = 1

    package init() {}

    package enum Fate: Sendable, Equatable {
        case accepted
        /// Inactive since `before` milliseconds before the simulator's start.
        case gone(Fault, before: Int64)
        case bad
        /// Fails `failures` times, then is accepted; `key` names the token in a table.
        case transient(Answer, failures: Int, key: UInt64)
    }

    /// The sum of all shares.
    package var total: Double { gone + bad + tooMany + unavailable + unanswered }

    package func fate(of token: ArraySlice<UInt8>) -> Fate {
        let total = self.total
        guard total > 0 else { return .accepted }
        let hash = Self.hash(token, seed: seed)
        let fraction = Double(hash >> 11) * (1.0 / 9_007_199_254_740_992.0)
        guard fraction < total else { return .accepted }
        var edge = gone
        let low = hash & 0x7FF
        if fraction < edge {
            let day: UInt64 = 86_400_000
            return .gone(
                low % 8 == 0 ? .expiredToken : .unregistered,
                before: Int64(hash % (30 * day)) + 1)
        }
        edge += bad
        if fraction < edge { return .bad }
        let failures = Int(low % 3) + 1
        edge += tooMany
        if fraction < edge {
            return .transient(
                .refused(.tooManyRequests, timestamp: nil), failures: failures, key: hash)
        }
        edge += unavailable
        if fraction < edge {
            return .transient(
                .refused(.serviceUnavailable, timestamp: nil), failures: failures, key: hash)
        }
        return .transient(.silence, failures: failures, key: hash)
    }

    static func hash(_ token: ArraySlice<UInt8>, seed: UInt64) -> UInt64 {
        withUnsafeTemporaryAllocation(byteCount: token.count, alignment: 1) { digits in
            var index = 0
            for byte in token {
                digits[index] = (0x41...0x5A).contains(byte) ? byte | 0x20 : byte
                index += 1
            }
            return SipHash(key0: seed, key1: 0x7065_616C).hash(UnsafeRawBufferPointer(digits))
        }
    }
}

/// How often each token of a transient share has failed.
///
/// Holds at most `limit` tokens; those beyond it are accepted at once, so that a run ends.
package struct FailureTable: Sendable {
    package static let limit = 1 << 20
    private var failed: [UInt64: UInt8] = [:]

    package init() {}

    /// Whether the token named `key` fails this time too.
    package mutating func fails(_ key: UInt64, failures: Int) -> Bool {
        let count = failed[key] ?? 0
        guard count < failures, count > 0 || failed.count < Self.limit else { return false }
        failed[key] = count + 1
        return true
    }
}
