import APNsSimulator
import Base
import Testing

@Suite("Simulator: what a script decides")
struct ScriptStateTests {
    private func script(_ text: String) throws -> Script { try Script.read(Array(text.utf8)) }

    private func arrival(
        _ token: String, connection: Int = 1, request: Int = 1, seconds: Double = 0,
        topic: String = "a"
    ) -> ScriptArrival {
        ScriptArrival(
            token: Array(token.utf8)[...], topic: Array(topic.utf8)[...], connection: connection,
            request: request, time: Int64(seconds * 1e9))
    }

    /// Whether a condition holds for each arrival in turn.
    private func holds(_ when: String, _ arrivals: [ScriptArrival]) throws -> [Bool] {
        var state = ScriptState(try script(#"{"rules":[{"when":\#(when),"do":{"freeze":{}}}]}"#))
        return arrivals.map { state.deed(for: $0) != nil }
    }

    @Test("each condition holds for what it names, and all together")
    func conditions() throws {
        let tokens = ["00AB", "00ab01", "01"].map { arrival($0) }
        #expect(try holds(#"{"token":"00aB"}"#, tokens) == [true, false, false])
        #expect(try holds(#"{"token_prefix":"00A"}"#, tokens) == [true, true, false])
        let topics = [arrival("00", topic: "a"), arrival("00", topic: "ab")]
        #expect(try holds(#"{"topic":"ab"}"#, topics) == [false, true])
        let connections = (1...6).map { arrival("00", connection: $0) }
        #expect(
            try holds(#"{"connection":2}"#, connections)
                == [false, true, false, false, false, false])
        #expect(
            try holds(#"{"connection":{"every":3}}"#, connections)
                == [false, false, true, false, false, true])
        let requests = (1...6).map { arrival("00", request: $0) }
        #expect(
            try holds(#"{"request":{"from":2,"until":5,"every":2}}"#, requests)
                == [false, true, false, true, false, false])
        #expect(
            try holds(#"{"total":{"from":3,"until":4}}"#, requests.map { _ in arrival("00") })
                == [false, false, true, true, false, false])
        let times = [0, 1.5, 2, 2.999, 3].map { arrival("00", seconds: $0) }
        #expect(
            try holds(#"{"seconds":{"from":2,"until":3}}"#, times)
                == [false, false, true, true, false])
        let again = ["aa", "aa", "AA", "bb", "bb", "bb"].map { arrival($0) }
        #expect(
            try holds(#"{"first_of_token":2}"#, again) == [true, true, false, true, true, false])
        #expect(
            try holds(
                #"{"token":"00","connection":2}"#,
                [arrival("00"), arrival("00", connection: 2), arrival("01", connection: 2)])
                == [false, true, false])
    }

    @Test("a share of tokens is near its size, the same for a seed and another for another")
    func share() throws {
        let tokens = (0..<20_000).map { arrival(String($0, radix: 16)) }
        let one = try holds(#"{"token_share":0.1,"seed":1}"#, tokens)
        #expect(try holds(#"{"token_share":0.1}"#, tokens) == one)
        #expect((1800...2200).contains(one.count { $0 }))
        let two = try holds(#"{"token_share":0.1,"seed":2}"#, tokens)
        #expect((100...320).contains(zip(one, two).count { $0 && $1 }))
    }

    @Test("the first rule that holds and is not used up decides")
    func order() throws {
        var state = ScriptState(
            try script(
                #"""
                {"rules":[
                  {"when":{"token_prefix":"0"},"do":{"delay":{"ms":1}},"limit":2},
                  {"when":{"token":"00"},"do":{"delay":{"ms":2}},"limit":1},
                  {"do":{"delay":{"ms":3}}}]}
                """#))
        let deeds = ["00", "11", "01", "00", "00"].map { state.deed(for: arrival($0)) }
        #expect(deeds == [1, 3, 1, 2, 3].map { .delay($0 * 1_000_000) })
    }

    @Test("the table of number ranges holds")
    func ranges() {
        func numbers(_ range: NumberRange) -> [Int] { (1...10).filter(range.contains) }
        #expect(numbers(NumberRange()) == Array(1...10))
        #expect(numbers(NumberRange(from: 4, until: 6)) == [4, 5, 6])
        #expect(numbers(NumberRange(from: 3, every: 3)) == [3, 6, 9])
        #expect(numbers(NumberRange(from: 2, until: 9, every: 5)) == [2, 7])
    }

    @Test("a token is taken as often as its rate says, in any window")
    func tokenRate() throws {
        var state = ScriptState(
            try script(#"{"settings":{"rate_per_token":{"requests":2,"seconds":10}}}"#))
        func admits(_ token: String, _ seconds: Int64) -> Bool {
            state.admits(Array(token.utf8)[...], at: seconds * 1_000_000_000)
        }
        #expect([0, 3, 9].map { admits("aa", $0) } == [true, true, false])
        #expect(admits("bb", 9))
        #expect([10, 12, 13].map { admits("aa", $0) } == [true, false, true])
    }

    @Test("latency: half wait less than the median, a share waits the tail, alike for a seed")
    func latency() throws {
        let script = try script(
            #"{"settings":{"latency":{"median_ms":20,"tail_share":0.1,"tail_ms":400}}}"#)
        var (one, two) = (ScriptState(script), ScriptState(script))
        let waits = (0..<4000).compactMap { _ in one.latency() }
        #expect(waits == (0..<4000).compactMap { _ in two.latency() })
        #expect((300...500).contains(waits.count { $0 == 400_000_000 }))
        let others = waits.filter { $0 != 400_000_000 }
        #expect(others.allSatisfy { (10_000_000...30_000_000).contains($0) })
        #expect(
            (0.45...0.55).contains(Double(others.count { $0 < 20_000_000 }) / Double(others.count)))
    }

    @Test("the table of error points holds, with the limit, its end and the GOAWAY")
    func score() {
        var rule = ErrorScore.Rule()
        rule.limitAt = 6
        rule.goAwayAt = 13
        var score = ErrorScore()
        func note(_ status: Int, _ reason: String? = nil) -> ErrorScore.Step {
            score.note(status: status, reason: reason, rule: rule)
        }
        #expect([200, 410, 500, 503].map { note($0) } == Array(repeating: .nothing, count: 4))
        #expect(score.points == 0)
        #expect(note(400, "BadDeviceToken") == .nothing)
        #expect(score.points == 5)
        #expect(note(403) == .lower)
        #expect(note(429) == .nothing)
        #expect(note(200) == .restore)
        #expect(note(200) == .nothing)
        #expect(note(404) == .lower)
        #expect(note(400, "BadDeviceToken") == .goAway)
        rule.goAwayAt = 0
        rule.limitAt = 0
        #expect(note(400, "BadDeviceToken") == .nothing)
    }

    @Test("the most in one second is counted over any second")
    func meter() {
        var meter = SecondMeter()
        for time in [0, 400, 900, 1100, 1300, 3000] as [Int64] {
            meter.add(2, at: .init(nanoseconds: time * 1_000_000))
        }
        #expect(meter.most == 8)
    }
}
