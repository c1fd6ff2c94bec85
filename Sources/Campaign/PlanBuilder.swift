internal import Base

/// Sorts a stream of recipients into the windows of shards.
///
/// The same token always goes to the same shard, so that duplicates meet there, and load spreads
/// evenly. Memory is bounded by `openLimit`, whatever the audience: the fullest windows are written
/// first.
package struct PlanBuilder {
    /// Recipients that a shard is planned for.
    package static let defaultShardSize = 20_000
    /// Bytes of open windows at most.
    package static let openLimit = 32 * 1024 * 1024

    /// A full window on its way to Redis.
    package struct Window: Sendable {
        package let shard: Int
        package let count: Int
        package let bytes: [UInt8]
    }

    package let shards: Int
    package private(set) var total = 0
    private var writers: [WindowWriter]
    private var full: [Window] = []
    private var openBytes = 0
    private let openLimit: Int
    private let hash: SipHash

    /// - Parameters:
    ///   - expected: recipients that pass one counted.
    ///   - shardSize: recipients that a shard is planned for.
    ///   - seed: random for each plan.
    ///   - openLimit: bytes of open windows at most.
    package init(
        expected: Int, shardSize: Int = PlanBuilder.defaultShardSize, seed: UInt64,
        openLimit: Int = PlanBuilder.openLimit
    ) {
        self.openLimit = openLimit
        shards = PlanBuilder.shards(expected, shardSize)
        writers = Array(repeating: WindowWriter(), count: shards)
        hash = SipHash(key0: seed, key1: 0x706C_616E)
    }

    /// Shards for a number of recipients: each of `shardSize` recipients on average at most, and
    /// small
    /// campaigns in up to 32 parts of about 2500, so that all workers have work until the end.
    ///
    /// | recipients | 0 | 1 | 2500 | 2501 | 20000 | 100000 | 1000000 |
    /// | --- | --- | --- | --- | --- | --- | --- | --- |
    /// | shards of 20000 | 1 | 1 | 1 | 2 | 8 | 32 | 50 |
    package static func shards(_ expected: Int, _ shardSize: Int) -> Int {
        let spread = min(evenShards, (expected + evenSize - 1) / evenSize)
        return max(1, spread, (expected + shardSize - 1) / shardSize)
    }
    /// Parts that a small campaign is cut into at most.
    static let evenShards = 32
    /// Recipients in one of these parts.
    static let evenSize = 2500

    package mutating func add(token: UnsafeRawBufferPointer) {
        let shard = place(token)
        writers[shard].append(token: token)
    }

    package mutating func add(invalid text: UnsafeRawBufferPointer) {
        let kept = UnsafeRawBufferPointer(rebasing: text.prefix(WindowWriter.invalidLimit))
        let shard = place(kept)
        writers[shard].append(invalid: kept)
    }

    /// Windows that are full; takes them.
    package mutating func takeFull() -> [Window] {
        if openBytes > openLimit { closeLargest() }
        let taken = full
        full.removeAll(keepingCapacity: true)
        return taken
    }

    /// All that is left, at the end of the stream.
    package mutating func takeRest() -> [Window] {
        for shard in 0..<shards where writers[shard].count > 0 { close(shard) }
        return takeFull()
    }

    private mutating func place(_ content: UnsafeRawBufferPointer) -> Int {
        let shard = Int(hash.hash(content) % UInt64(shards))
        if !writers[shard].hasRoom(for: content.count) { close(shard) }
        total += 1
        openBytes += content.count + 2
        return shard
    }

    private mutating func close(_ shard: Int) {
        let window = writers[shard].take()
        openBytes -= window.bytes.count - 1
        full.append(Window(shard: shard, count: window.count, bytes: window.bytes))
    }

    private mutating func closeLargest() {
        let order = (0..<shards).sorted { writers[$0].bytes.count > writers[$1].bytes.count }
        for shard in order where openBytes > openLimit / 2 && writers[shard].count > 0 {
            close(shard)
        }
    }
}
