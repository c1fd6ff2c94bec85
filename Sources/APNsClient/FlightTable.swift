internal import Base

/// The requests of one connection that have no outcome yet.
///
/// A slab with its free places chained, and a queue in the order of sending, so that the oldest is
/// found at once. Nothing is allocated per request.
final class FlightTable {
    struct Entry {
        var template: PushTemplate?
        var tag: UInt64 = 0
        var startedAt = Instant(nanoseconds: 0)
        var stream: Int32 = 0
        /// Given up for its deadline: no longer in the queue, though its stream has not ended yet.
        var timedOut = false
        fileprivate var isUsed = false
        fileprivate var before: Int32 = FlightTable.none
        /// The next in the queue, or the next free place.
        fileprivate var after: Int32 = FlightTable.none
    }
    fileprivate static let none: Int32 = -1

    private(set) var count = 0
    private let capacity: Int
    private let entries: UnsafeMutablePointer<Entry>
    private var oldest = FlightTable.none
    private var newest = FlightTable.none
    private var free: Int32 = 0

    init(capacity: Int) {
        precondition(capacity > 0, "a connection needs room for a request")
        self.capacity = capacity
        entries = .allocate(capacity: capacity)
        entries.initialize(repeating: Entry(), count: capacity)
        for index in 0..<capacity {
            entries[index].after = index + 1 < capacity ? Int32(index + 1) : FlightTable.none
        }
    }

    deinit {
        entries.deinitialize(count: capacity)
        entries.deallocate()
    }

    subscript(place: Int) -> Entry { entries[place] }

    /// The request that was sent first of those that were not given up.
    var first: Int? { oldest == FlightTable.none ? nil : Int(oldest) }

    /// A place for a request that is being sent at `now`, or nil when all are in use.
    func add(_ template: PushTemplate, tag: UInt64, at now: Instant) -> Int? {
        guard free != FlightTable.none else { return nil }
        let place = free
        let entry = entries + Int(place)
        free = entry.pointee.after
        entry.pointee.template = template
        entry.pointee.tag = tag
        entry.pointee.startedAt = now
        entry.pointee.stream = 0
        entry.pointee.timedOut = false
        entry.pointee.isUsed = true
        entry.pointee.before = newest
        entry.pointee.after = FlightTable.none
        if newest == FlightTable.none {
            oldest = place
        } else {
            entries[Int(newest)].after = place
        }
        newest = place
        count += 1
        return Int(place)
    }

    func setStream(_ stream: Int32, of place: Int) { entries[place].stream = stream }

    /// Takes a request out of the queue; it keeps its place until its stream ended.
    func giveUp(_ place: Int) {
        guard entries[place].isUsed, !entries[place].timedOut else { return }
        unlink(place)
        entries[place].timedOut = true
    }

    /// Ends a request and frees its place.
    func remove(_ place: Int) {
        precondition(entries[place].isUsed, "a request ended twice")
        if !entries[place].timedOut { unlink(place) }
        entries[place].template = nil
        entries[place].isUsed = false
        entries[place].after = free
        free = Int32(place)
        count -= 1
    }

    /// All places in use, the given-up ones too.
    func forEach(_ body: (Int) -> Void) {
        for place in 0..<capacity where entries[place].isUsed { body(place) }
    }

    private func unlink(_ place: Int) {
        let (before, after) = (entries[place].before, entries[place].after)
        if before == FlightTable.none { oldest = after } else { entries[Int(before)].after = after }
        if after == FlightTable.none {
            newest = before
        } else {
            entries[Int(after)].before = before
        }
        entries[place].before = FlightTable.none
        entries[place].after = FlightTable.none
    }
}
