internal import Base
internal import EventLoop

/// Chooses among the addresses of a host: spread evenly, failed ones last.
///
/// Pure. Apple spreads load by DNS, so that the connections of one process should not all go to
/// the first address of the answer.
struct AddressBook {
    private var failedAt: [SocketAddress: Instant] = [:]
    private var uses: [SocketAddress: Int] = [:]

    /// Addresses remembered as failed at most.
    static let limit = 64
    /// Addresses tried in one attempt at most.
    static let tries = 4

    /// The order to try `addresses` in, the first four: those that did not fail lately, the least
    /// used first, ties by lot; then those that failed, the longest ago first.
    func order(
        _ addresses: [SocketAddress], now: Instant, deadTime: Int64, random: inout SeededRandom
    ) -> [SocketAddress] {
        let ranked = addresses.shuffled(using: &random).map { address in
            let failed = failedAt[address].flatMap { now - $0 < deadTime ? $0.nanoseconds : nil }
            return (address: address, failed: failed ?? .min, uses: uses[address] ?? 0)
        }
        // `sorted` is stable, so that the shuffled order decides ties.
        let sorted = ranked.sorted { ($0.failed, $0.uses) < ($1.failed, $1.uses) }
        return sorted.prefix(AddressBook.tries).map(\.address)
    }

    mutating func failed(_ address: SocketAddress, now: Instant) {
        if failedAt.count >= AddressBook.limit { failedAt.removeAll() }
        failedAt[address] = now
    }

    /// A connection to it came up.
    mutating func healthy(_ address: SocketAddress) { failedAt[address] = nil }

    mutating func opened(_ address: SocketAddress) {
        uses[address, default: 0] += 1
    }

    mutating func closed(_ address: SocketAddress) {
        let left = (uses[address] ?? 1) - 1
        uses[address] = left > 0 ? left : nil
    }
}
