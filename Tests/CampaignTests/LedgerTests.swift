import Base
import Campaign
import Testing

@Suite("Ledger")
struct LedgerTests {
    @Test(
        "each byte has its class, its tries and its way to and from in flight",
        arguments: [
            (".", .untouched, 0, ">", nil, nil), (">", .inFlight, 0, nil, ".", "1"),
            ("1", .deferred, 1, "A", nil, nil), ("9", .deferred, 9, "I", nil, nil),
            ("A", .inFlight, 1, nil, "1", "2"), ("H", .inFlight, 8, nil, "8", "9"),
            ("I", .inFlight, 9, nil, "9", nil), ("a", .accepted, 0, nil, nil, nil),
            ("g", .gone, 0, nil, nil, nil), ("q", .quarantined, 0, nil, nil, nil),
            ("r", .rejected, 0, nil, nil, nil), ("s", .skipped, 0, nil, nil, nil),
            ("x", .expired, 0, nil, nil, nil), ("c", .cancelled, 0, nil, nil, nil),
            ("u", .unknown, 0, nil, nil, nil),
        ] as [(Character, RecipientClass, Int, Character?, Character?, Character?)])
    func table(
        letter: Character, kind: RecipientClass, tries: Int, marked: Character?,
        unmarked: Character?, charged: Character?
    ) throws {
        let byte = try #require(letter.asciiValue)
        #expect(LedgerByte.recipientClass(byte) == kind)
        #expect(LedgerByte.tries(byte) == tries)
        #expect(LedgerByte.isInFlight(byte) == (kind == .inFlight))
        #expect(LedgerByte.isDeferred(byte) == (kind == .deferred))
        if let marked { #expect(LedgerByte.marked(byte) == marked.asciiValue) }
        if let unmarked { #expect(LedgerByte.unmarked(byte) == unmarked.asciiValue) }
        if kind == .inFlight { #expect(LedgerByte.charged(byte) == charged?.asciiValue) }
    }

    @Test("fifteen kinds of bytes and the digits and letters between are all a ledger holds")
    func others() {
        let known = (UInt8.min...UInt8.max).filter { LedgerByte.recipientClass($0) != nil }
        #expect(String(decoding: known, as: UTF8.self) == ".123456789>ABCDEFGHIacgqrsux")
        #expect(RecipientClass.allCases.filter { !$0.isTerminal }.count == 3)
    }

    @Test("due records keep index and time, and a later record of an index holds")
    func due() {
        var bytes: [UInt8] = []
        let now: Int64 = 1_796_000_000_000
        DueRecords.append(0, at: now + 10, ahead: 10, to: &bytes)
        DueRecords.append(70_000, at: now + 123, ahead: 123, to: &bytes)
        DueRecords.append(0, at: now + 20, ahead: 20, to: &bytes)
        #expect(DueRecords.waits(bytes, now: now) == [0: 20, 70_000: 123])
        #expect(DueRecords.waits(bytes, now: now + 100) == [0: 0, 70_000: 23])
        // The clock jumped back by an hour: nobody waits longer than was asked for.
        #expect(DueRecords.waits(bytes, now: now - 3_600_000) == [0: 20, 70_000: 123])
        #expect(DueRecords.waits([], now: now) == [:])
        #expect(DueRecords.waits(Array(bytes.prefix(31)), now: now) == [0: 10])
        #expect(DueRecords.readIndexes([1, 0, 0, 0, 0, 1, 0, 0, 9]) == [1, 256])
    }

    @Test("an apns-id is the same each time, differs by token and campaign, and is a UUID v8")
    func identifier() {
        var seen: Set<UInt64> = []
        for token in 0..<1000 {
            let bytes = Array("token \(token)".utf8)
            for campaign in ["a", "b"] {
                let identifier = NotificationID(campaign: campaign)
                let (high, low) = bytes.withUnsafeBytes { identifier.make($0) }
                let again = bytes.withUnsafeBytes { NotificationID(campaign: campaign).make($0) }
                #expect(again == (high, low))
                #expect(high >> 12 & 0xF == 8)
                #expect(low >> 62 == 0b10)
                #expect(seen.insert(high).inserted)
            }
        }
    }
}

@Suite("Latency buckets")
struct LatencyBucketsTests {
    @Test(
        "buckets follow the table in their comment",
        arguments: [
            (0, 1), (3, 4), (4, 5), (7, 8), (8, 10), (9, 10), (10, 12), (100, 112), (1000, 1024),
            (59_999, 65_536), (70_000, 65_536), (-5, 1),
        ])
    func table(milliseconds: Int, bound: Int) {
        #expect(LatencyBuckets.bound(LatencyBuckets.index(milliseconds: milliseconds)) == bound)
    }

    @Test("every millisecond lies below its bucket's bound and not below the one before")
    func bounds() {
        for index in 1..<LatencyBuckets.count {
            #expect(LatencyBuckets.bound(index) > LatencyBuckets.bound(index - 1))
        }
        var wrong = 0
        for milliseconds in 0...65_535 {
            let index = LatencyBuckets.index(milliseconds: milliseconds)
            let lower = index == 0 ? 0 : LatencyBuckets.bound(index - 1)
            if milliseconds < lower || milliseconds >= LatencyBuckets.bound(index) { wrong += 1 }
        }
        #expect(wrong == 0)
        #expect(LatencyBuckets.index(milliseconds: 65_535) == LatencyBuckets.count - 1)
    }

    @Test("a quantile is the bound below which that part of the answers lies")
    func quantiles() {
        var counts = [Int](repeating: 0, count: LatencyBuckets.count)
        #expect(LatencyBuckets.quantile(counts, 0.99) == 0)
        counts[LatencyBuckets.index(milliseconds: 10)] = 99
        counts[LatencyBuckets.index(milliseconds: 1000)] = 1
        #expect(LatencyBuckets.quantile(counts, 0.5) == 12)
        #expect(LatencyBuckets.quantile(counts, 0.99) == 12)
        #expect(LatencyBuckets.quantile(counts, 1) == 1024)
    }
}

@Suite("Fault tally")
struct FaultTallyTests {
    /// Answers by rounds: how many, and how many of them (the first ones) blame the token.
    @Test(
        "the breaker opens as the table in its comment says",
        arguments: [
            ([(20, 20)], false), ([(50, 50)], true), ([(99, 49)], false), ([(100, 50)], true),
            ([(100, 0), (1000, 10), (1000, 99)], false),
            ([(100, 0), (1000, 10), (1000, 100)], true),
        ] as [([(Int, Int)], Bool)])
    func table(rounds: [(Int, Int)], opens: Bool) {
        var tally = FaultTally()
        for (answers, faults) in rounds {
            for answer in 0..<answers { _ = tally.note(isTokenFault: answer < faults) }
        }
        #expect(tally.isOpen == opens)
    }

    @Test("the breaker reports its opening once and stays open")
    func once() {
        var tally = FaultTally()
        let reports = (0..<200).filter { _ in tally.note(isTokenFault: true) }
        #expect(reports == [49])
        #expect(tally.isOpen)
    }
}
