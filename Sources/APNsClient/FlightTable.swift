internal import Base

/// The open requests of one connection: a slab and, threaded through it, their order in time.
struct FlightTable {
    struct Flight {
        var tag: UInt64 = 0
        var template: PushTemplate?
        var startedAt = Instant(nanoseconds: 0)
        var stream: Int32 = 0
        var timedOut = false
        fileprivate var older = -1
        fileprivate var newer = -1
        fileprivate var isUsed = false
    }

    private var flights: [Flight]
    private var free: [Int]
    private var oldest = -1
    private var newest = -1

    init(limit: Int) {
        flights = Array(repeating: Flight(), count: limit)
        free = Array((0..<limit).reversed())
    }

    /// The session allows at most as many streams as the table has places.
    mutating func add(_ tag: UInt64, _ template: PushTemplate, _ now: Instant) -> Int {
        guard let place = free.popLast() else {
            preconditionFailure("more requests than the connection's stream limit")
        }
        flights[place] = Flight(
            tag: tag, template: template, startedAt: now, stream: 0, timedOut: false,
            older: newest, newer: -1, isUsed: true)
        if newest >= 0 { flights[newest].newer = place } else { oldest = place }
        newest = place
        return place
    }

    mutating func setStream(_ place: Int, _ stream: Int32) { flights[place].stream = stream }

    mutating func markTimedOut(_ place: Int) { flights[place].timedOut = true }

    mutating func remove(_ place: Int) -> Flight {
        let flight = flights[place]
        if flight.older >= 0 { flights[flight.older].newer = flight.newer } else { oldest = flight.newer }
        if flight.newer >= 0 { flights[flight.newer].older = flight.older } else { newest = flight.older }
        flights[place].isUsed = false
        flights[place].template = nil
        free.append(place)
        return flight
    }

    /// The oldest request that is overdue and was not given up yet.
    func oldestOverdue(_ now: Instant, _ limit: Int64) -> (Int, Int32)? {
        var place = oldest
        while place >= 0, now - flights[place].startedAt > limit {
            if !flights[place].timedOut { return (place, flights[place].stream) }
            place = flights[place].newer
        }
        return nil
    }

    mutating func removeAll(_ body: (Flight) -> Void) {
        while oldest >= 0 { body(remove(oldest)) }
    }
}
