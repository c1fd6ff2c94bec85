import APNsSimulator
import Base
import Testing

@Suite("Simulator: populations and rate")
struct PopulationTests {
    private func tokens(_ count: Int) -> [[UInt8]] {
        (0..<count).map { number in
            Array(Hex.encode((0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }).utf8)
        }
    }

    @Test("each share comes out near its size, alike in every run, and otherwise for another seed")
    func shares() {
        var population = Population()
        population.gone = 0.02
        population.bad = 0.005
        population.tooMany = 0.01
        population.unavailable = 0.005
        var counts: [Int: Int] = [:]
        var failures: [Int: Int] = [:]
        var other = population
        other.seed = 2
        var differing = 0
        var unstable = 0
        let tokens = tokens(100_000)
        for token in tokens {
            let fate = population.fate(of: token[...])
            if fate != population.fate(of: token[...]) { unstable += 1 }
            if fate != other.fate(of: token[...]) { differing += 1 }
            switch fate {
            case .accepted: counts[200, default: 0] += 1
            case .gone(_, let before):
                counts[410, default: 0] += 1
                #expect((1...2_592_000_000).contains(before))
            case .bad: counts[400, default: 0] += 1
            case .transient(let answer, let times, _):
                counts[answer.status, default: 0] += 1
                failures[times, default: 0] += 1
            }
        }
        #expect((1800...2200).contains(counts[410] ?? 0))
        #expect((400...600).contains(counts[400] ?? 0))
        #expect((850...1150).contains(counts[429] ?? 0))
        #expect((400...600).contains(counts[503] ?? 0))
        #expect(failures.keys.sorted() == [1, 2, 3])
        #expect(differing > 5000)
        #expect(unstable == 0)
    }

    @Test("a token's digits count in either case")
    func letterCase() {
        var population = Population()
        population.gone = 0.5
        for number in 0..<200 {
            let lower = "abcdef\(number)"
            let upper = lower.uppercased()
            #expect(
                population.fate(of: Array(lower.utf8)[...])
                    == population.fate(of: Array(upper.utf8)[...]))
        }
    }

    @Test("a transient token fails as often as it must and is then accepted for good")
    func transient() {
        var table = FailureTable()
        #expect(
            (0..<5).map { _ in table.fails(7, failures: 3) } == [true, true, true, false, false])
        #expect((0..<3).map { _ in table.fails(8, failures: 1) } == [true, false, false])
    }

    @Test("the table of failures is bounded: a token beyond it is accepted at once")
    func bounded() {
        var table = FailureTable()
        for key in 0..<FailureTable.limit { _ = table.fails(UInt64(key), failures: 2) }
        let beyond = table.fails(UInt64.max, failures: 3)
        let known = table.fails(0, failures: 2)
        #expect(!beyond)
        #expect(known)
    }

    @Test(
        "the allowance table of the rate rule holds",
        arguments: [(10, 0, 11), (1500, 0, 1650), (10, 100, 12), (1500, 100, 1800)])
    func allowance(limit: Int, late: Int64, expected: Int) {
        #expect(RateRule(limit: limit).allowance(late: late * 1_000_000) == expected)
    }

    @Test("an even 1500 per second passes for good, 1651 in one second do not")
    func rate() {
        var rule = RateRule(limit: 1500)
        for index in 0..<6000 {
            let admitted = rule.admits(at: Instant(nanoseconds: Int64(index) * 666_667))
            #expect(admitted)
        }
        rule = RateRule(limit: 1500)
        var admitted = (0..<1651).filter { _ in rule.admits(at: Instant(nanoseconds: 5)) }
        #expect(admitted.count == 1650)
        admitted = [0].filter { _ in rule.admits(at: Instant(nanoseconds: 999_999_999)) }
        #expect(admitted.isEmpty)
        admitted = [0].filter { _ in rule.admits(at: Instant(nanoseconds: 1_000_000_005)) }
        #expect(admitted.count == 1)
        rule = RateRule(limit: 0)
        admitted = (0..<10_000).filter { _ in rule.admits(at: Instant(nanoseconds: 5)) }
        #expect(admitted.count == 10_000)
    }

    @Test("only delays of the simulator's own are noted, and forgotten after a second")
    func lateness() {
        var lateness = Lateness()
        func at(_ milliseconds: Int) -> Instant {
            Instant(nanoseconds: Nanoseconds.milliseconds(milliseconds))
        }
        let interval = Nanoseconds.milliseconds(1)
        for time in [0, 1, 2, 103, 104] { lateness.turn(at: at(time), interval: interval) }
        var recent = lateness.recent(at: at(200))
        #expect(recent == Nanoseconds.milliseconds(100))
        recent = lateness.recent(at: at(1104))
        #expect(recent == 0)
        lateness.rest()
        lateness.turn(at: at(9000), interval: interval)
        recent = lateness.recent(at: at(9000))
        #expect(recent == 0)
    }
}
