internal import Base

/// Which claim of which shard: every script compares it before it changes anything.
package struct Fence: Sendable, Hashable {
    package var campaign: String
    package var shard: Int
    /// Random for each plan, since a plan made again attaches positions to other recipients.
    package var plan: String
    package var epoch: Int
    /// Random for each claim, since a Redis that was rolled back can hand out an epoch twice.
    package var nonce: String

    package init(campaign: String, shard: Int, plan: String, epoch: Int, nonce: String) {
        self.campaign = campaign
        self.shard = shard
        self.plan = plan
        self.epoch = epoch
        self.nonce = nonce
    }
}

/// What one call of the commit script carries.
///
/// A commit is repeated unchanged until it is answered.
package struct Commit: Sendable {
    package enum Finish: Sendable, Equatable {
        case goOn
        /// The shard goes back and may be claimed at once.
        case release
        /// Nothing can be sent before this time (Redis' clock, ms), which is so far ahead.
        case park(untilMilliseconds: Int64, lengthMilliseconds: Int64)
    }

    /// A stretch of the ledger: its first index, the bytes that Redis should hold, the new bytes.
    package struct Change: Sendable, Equatable {
        package var offset: Int
        package var known: [UInt8]
        package var bytes: [UInt8]
    }

    package var fence: Fence
    package var number: Int
    package var isReplay = false
    /// Stretches of the ledger.
    package var changes: [Change] = []
    package var reasons: [(index: Int, text: String)] = []
    package var deactivations: [[UInt8]] = []
    package var quarantined: [[UInt8]] = []
    package var latency: [(bucket: Int, count: Int)] = []
    package var counters: [String: Int] = [:]
    package var finish = Finish.goOn
    package var due: [UInt8] = []
    package var unknowns: [UInt8] = []

    package init(fence: Fence, number: Int) {
        self.fence = fence
        self.number = number
    }
}

/// How Redis answered a commit.
package struct CommitReply: Sendable {
    package enum Status: String, Sendable {
        case ok
        /// All recipients of the shard are terminal.
        case done
        /// The claim is somebody else's now: stop at once, the results are dropped.
        case fenced
        /// Redis lost confirmed commits: the whole ledger must be written again.
        case rolledBack = "rolled_back"
        /// Redis lost the claim: it must be taken back, then the whole ledger written again.
        case claimRolledBack = "claim_rolled_back"
        /// The shard does not exist any more.
        case gone
    }

    package var status: Status
    package var campaignState: String
    /// Redis' clock, milliseconds since the epoch.
    package var nowMilliseconds: Int64
    /// Recipients of the shard that are not terminal.
    package var left: Int

    package init(status: Status, campaignState: String, nowMilliseconds: Int64, left: Int) {
        self.status = status
        self.campaignState = campaignState
        self.nowMilliseconds = nowMilliseconds
        self.left = left
    }
}

/// When deferred recipients may be sent again, as a shard keeps it in Redis: records of a 32-bit
/// index, a 64-bit time (Redis' clock, ms) and how far ahead that was when it was written (32 bits,
/// ms), little-endian.
///
/// A later record of an index holds.
package enum DueRecords {
    private static let size = 16

    package static func append(
        _ index: Int, at milliseconds: Int64, ahead: Int64, to bytes: inout [UInt8]
    ) {
        withUnsafeBytes(of: UInt32(index).littleEndian) { bytes.append(contentsOf: $0) }
        withUnsafeBytes(of: milliseconds.littleEndian) { bytes.append(contentsOf: $0) }
        withUnsafeBytes(of: UInt32(clamping: ahead).littleEndian) { bytes.append(contentsOf: $0) }
    }

    /// How many milliseconds each recipient still has to wait.
    ///
    /// Never longer than it had to when that was written, since a clock may have jumped back.
    ///
    /// - `now`: Redis' clock, ms.
    package static func waits(_ bytes: [UInt8], now: Int64) -> [Int: Int64] {
        var result: [Int: Int64] = [:]
        bytes.withUnsafeBytes { raw in
            var at = 0
            while at + size <= raw.count {
                let index = UInt32(
                    littleEndian: raw.loadUnaligned(fromByteOffset: at, as: UInt32.self))
                let time = Int64(
                    littleEndian: raw.loadUnaligned(fromByteOffset: at + 4, as: Int64.self))
                let ahead = UInt32(
                    littleEndian: raw.loadUnaligned(fromByteOffset: at + 12, as: UInt32.self))
                result[Int(index)] = min(max(0, time - now), Int64(ahead))
                at += size
            }
        }
        return result
    }

    /// Packed 32-bit indexes.
    package static func readIndexes(_ bytes: [UInt8]) -> Set<Int> {
        var result: Set<Int> = []
        bytes.withUnsafeBytes { raw in
            var at = 0
            while at + 4 <= raw.count {
                result.insert(
                    Int(
                        UInt32(littleEndian: raw.loadUnaligned(fromByteOffset: at, as: UInt32.self))
                    ))
                at += 4
            }
        }
        return result
    }
}
