import APNs
import Base
import Testing

@Suite("Pacer")
struct PacerTests {
    private static let second: Int64 = 1_000_000_000

    @Test(
        "the limit decides burst and spacing",
        arguments: [
            (1, 1, Int64(1_000_000_001), Int64(833_333_335)), (10, 1, 111_111_112, 92_592_594),
            (200, 1, 5_025_126, 4_187_605), (1000, 5, 1_005_026, 837_522),
            (1500, 8, 670_242, 558_535),
        ])
    func table(limit: Int, burst: Int, interval: Int64, catchUp: Int64) {
        let pacer = Pacer(limit: limit, now: Instant(nanoseconds: 0))
        #expect(pacer.limit == limit)
        #expect(pacer.burst == burst)
        #expect(pacer.interval == interval)
        #expect(pacer.catchUpInterval == catchUp)
    }

    /// The times of all requests of a run with the given ticks, with as much work as can be sent.
    private func run(limit: Int, seconds: Int64, tick: () -> Int64) -> [Int64] {
        var now = Instant(nanoseconds: 7_000)
        let end = now + seconds * Self.second
        var pacer = Pacer(limit: limit, now: now)
        var times: [Int64] = []
        while now < end {
            times += Array(repeating: now.nanoseconds, count: pacer.take(upTo: 1000, now: now))
            now = now + tick()
        }
        return times
    }

    /// The most requests in any window of a second.
    private func fullest(_ times: [Int64]) -> Int {
        var first = 0
        var most = 0
        for last in times.indices {
            while times[last] - times[first] >= Self.second { first += 1 }
            most = max(most, last - first + 1)
        }
        return most
    }

    @Test(
        "no window of a second holds more than the limit, whatever the ticks",
        arguments: [1, 2, 3, 10, 199, 200, 201, 750, 1500, 5000])
    func anyWindow(limit: Int) {
        for seed in 0..<10 as Range<UInt64> {
            var random = SeededRandom(seed: seed)
            let times = run(limit: limit, seconds: 6) {
                // Mostly ticks of a millisecond or so, now and then a stall of up to two seconds.
                let chance = random.fraction()
                let longest = chance < 0.002 ? 2e9 : chance < 0.05 ? 2e7 : 2e6
                return 1 + Int64(random.fraction() * longest)
            }
            #expect(fullest(times) <= limit, "seed \(seed)")
        }
    }

    @Test("with ticks of a millisecond 1500 a second gives at least 1485")
    func mean() {
        let times = run(limit: 1500, seconds: 10) { 1_000_000 }
        #expect(times.count >= 14_850)
        #expect(fullest(times) <= 1500)
        let slow = run(limit: 1500, seconds: 10) { 4_000_000 }
        #expect(slow.count >= 14_850, "a tick of 4 ms holds the pace too")
    }

    @Test("a thread that is held up for 20 ms now and then still holds the pace, without a burst")
    func stalls() {
        var turns = 0
        let times = run(limit: 1500, seconds: 10) {
            turns += 1
            return turns % 150 == 0 ? 20_000_000 : 1_000_000
        }
        // 13,200 are left at the even pace alone; the hard limit costs the rest.
        #expect(times.count >= 14_700)
        #expect(fullest(times) <= 1500)
        // At most a fifth faster than even in any 50 ms, and the 8 that may leave at once.
        var first = 0
        for last in times.indices {
            while times[last] - times[first] >= 50_000_000 { first += 1 }
            #expect(last - first + 1 <= 8 + 90)
        }
    }

    @Test("a new pacer starts empty, and a stall is followed by one burst at most")
    func noCatchingUp() {
        let start = Instant(nanoseconds: 5)
        var pacer = Pacer(limit: 1500, now: start)
        #expect(pacer.take(upTo: 100, now: start) == 0)
        #expect(pacer.take(upTo: 100, now: start + 30 * Self.second) == 8)
        #expect(pacer.take(upTo: 100, now: start + 30 * Self.second) == 0)
    }

    @Test("what was given back can be taken again, and no more than that")
    func givingBack() {
        let now = Instant(nanoseconds: 9 * Self.second)
        var pacer = Pacer(limit: 1500, now: Instant(nanoseconds: 0))
        #expect(pacer.take(upTo: 5, now: now) == 5)
        pacer.giveBack(2)
        #expect(pacer.take(upTo: 100, now: now) == 5)
        pacer.giveBack(5)
        #expect(pacer.take(upTo: 100, now: now) == 5)
        #expect(pacer.take(upTo: 100, now: now) == 0)
    }

    @Test("windows hold for the times of writing when the thread is held up in between")
    func lateWrites() {
        for seed in 0..<10 as Range<UInt64> {
            var random = SeededRandom(seed: seed)
            var now = Instant(nanoseconds: 0)
            var pacer = Pacer(limit: 1500, now: now)
            var times: [Int64] = []
            while now.nanoseconds < 6 * Self.second {
                let count = pacer.take(upTo: 1000, now: now)
                let delay = random.fraction() < 0.02 ? random.fraction() * 5e7 : 1e5
                now = now + Int64(delay)
                pacer.written(at: now)
                times += Array(repeating: now.nanoseconds, count: count)
                now = now + 1_000_000
            }
            #expect(fullest(times) <= 1500, "seed \(seed)")
        }
    }

    @Test("the limit can be halved and raised while it runs, without a burst")
    func changing() {
        var now = Instant(nanoseconds: 0)
        var pacer = Pacer(limit: 1500, now: now)
        var times: [Int64] = []
        for millisecond in 0..<9000 {
            if millisecond == 3000 { pacer.setLimit(750, now: now) }
            if millisecond == 6000 { pacer.setLimit(1500, now: now) }
            times += Array(repeating: now.nanoseconds, count: pacer.take(upTo: 99, now: now))
            now = now + 1_000_000
        }
        #expect(fullest(times) <= 1500)
        #expect(fullest(times.filter { (3_000_000_000..<6_000_000_000).contains($0) }) <= 750)
    }

    @Test("without a limit everything may leave at once")
    func unlimited() {
        var pacer = Pacer(limit: nil, now: Instant(nanoseconds: 0))
        #expect(pacer.take(upTo: 100_000, now: Instant(nanoseconds: 0)) == 100_000)
        pacer.giveBack(10)
        pacer.written(at: Instant(nanoseconds: 1))
        #expect(pacer.take(upTo: 7, now: Instant(nanoseconds: 0)) == 7)
    }
}
