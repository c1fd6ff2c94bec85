/// The class a recipient is in; the raw values are the counter names of the statistics keys, in the
/// order in which a shard packs its counts.
package enum RecipientClass: String, CaseIterable, Sendable {
    case untouched
    case inFlight = "in_flight"
    case deferred
    case accepted, gone, quarantined, rejected, skipped, expired, cancelled, unknown

    /// Nothing more will happen to a recipient of this class.
    package var isTerminal: Bool {
        switch self {
        case .untouched, .inFlight, .deferred: false
        default: true
        }
    }
}

/// One byte of the ledger says where one recipient stands.
///
/// | byte | meaning |
/// | --- | --- |
/// | `.` | not yet touched |
/// | `>` | in flight for the first time: marked before it is sent |
/// | `1` to `9` | deferred after that many charged tries |
/// | `A` to `I` | in flight again, after 1 to 9 charged tries |
/// | `a g q r` | accepted, gone, quarantined, rejected |
/// | `s x c u` | skipped, expired, cancelled, unknown |
package enum LedgerByte {
    package static let untouched = UInt8(ascii: ".")
    package static let firstFlight = UInt8(ascii: ">")
    package static let accepted = UInt8(ascii: "a")
    package static let gone = UInt8(ascii: "g")
    package static let quarantined = UInt8(ascii: "q")
    package static let rejected = UInt8(ascii: "r")
    package static let skipped = UInt8(ascii: "s")
    package static let expired = UInt8(ascii: "x")
    package static let cancelled = UInt8(ascii: "c")
    package static let unknown = UInt8(ascii: "u")

    /// The class of a byte, or nil for a byte no ledger holds.
    package static func recipientClass(_ byte: UInt8) -> RecipientClass? {
        switch byte {
        case untouched: .untouched
        case firstFlight, 0x41...0x49: .inFlight
        case 0x31...0x39: .deferred
        case accepted: .accepted
        case gone: .gone
        case quarantined: .quarantined
        case rejected: .rejected
        case skipped: .skipped
        case expired: .expired
        case cancelled: .cancelled
        case unknown: .unknown
        default: nil
        }
    }

    package static func isInFlight(_ byte: UInt8) -> Bool {
        byte == firstFlight || (0x41...0x49).contains(byte)
    }

    package static func isDeferred(_ byte: UInt8) -> Bool { (0x31...0x39).contains(byte) }

    /// Charged tries so far: 0 for `.` and `>`, 1 for `1` and `A`, and so on.
    package static func tries(_ byte: UInt8) -> Int {
        switch byte {
        case 0x31...0x39: Int(byte) - 0x30
        case 0x41...0x49: Int(byte) - 0x40
        default: 0
        }
    }

    /// `.` becomes `>`, a digit its letter: about to be sent.
    package static func marked(_ byte: UInt8) -> UInt8 {
        isDeferred(byte) ? byte + 0x10 : firstFlight
    }

    /// The way back: not sent after all, no try charged.
    package static func unmarked(_ byte: UInt8) -> UInt8 {
        byte == firstFlight ? untouched : byte - 0x10
    }

    /// `>` becomes `1`, `A` becomes `2`: one more try charged; nil after nine.
    package static func charged(_ byte: UInt8) -> UInt8? {
        if byte == firstFlight { return 0x31 }
        return byte < 0x49 ? byte - 0x10 + 1 : nil
    }
}
