import Campaign
import JSON
import Testing

@testable import JobQueue
@testable import peal

@Suite("peal results, health and status")
struct ResultsTests {
    static func parse(_ line: [String]) throws -> Parsed {
        let program = Program(commands: [resultsCommand, healthCommand, workerCommand])
        let request = try program.request(line, environment: [:]) { _ in [] }
        guard case .run(_, let parsed) = request else { throw Failure(code: 0, "help") }
        return parsed
    }

    static func result(_ text: String, isToken: Bool = true) -> RecipientResult {
        RecipientResult(
            shard: 2, position: 7, content: Array(text.utf8), isToken: isToken, outcome: .gone,
            reason: "Unregistered")
    }

    @Test("a line of JSON has the token in hexadecimal, or the text that is none with a flag")
    func ndjson() throws {
        let token = ResultsText.line(Self.result("\u{1}Z"), .ndjson)
        #expect(token.last == 0x0A)
        let json = try JSONValue.parse(Array(token.dropLast()))
        #expect(json["token"] == "015a")
        #expect(json["valid"] == true)
        #expect(json["outcome"] == "gone")
        #expect(json["reason"] == "Unregistered")
        #expect(json["shard"] == 2)
        #expect(json["position"] == 7)
        let text = ResultsText.line(Self.result("no\n\"token\"", isToken: false), .ndjson)
        #expect(text.filter { $0 == 0x0A }.count == 1)
        let other = try JSONValue.parse(Array(text.dropLast()))
        #expect(other["token"] == "no\n\"token\"")
        #expect(other["valid"] == false)
    }

    @Test(
        "a field of CSV is quoted where it must be",
        arguments: [
            ("plain", "plain"), ("a,b", "\"a,b\""), ("a\"b", "\"a\"\"b\""),
            ("a\r\nb", "\"a\r\nb\""),
            ("", ""),
        ])
    func csv(text: String, field: String) {
        let line = String(
            decoding: ResultsText.line(Self.result(text, isToken: false), .csv), as: UTF8.self)
        #expect(line == "\(field),false,gone,Unregistered,2,7\r\n")
        let columns = ResultsText.csvHeader.split(separator: UInt8(ascii: ",")).count
        #expect(columns == 6)
    }

    @Test("classes are named with commas, and a wrong name gets the nearest one")
    func outcomes() throws {
        let all = try ResultsText.outcomes(try Self.parse(["results", "a"]))
        #expect(all.count == RecipientClass.allCases.count)
        let some = try Self.parse(["results", "a", "--outcome", "unknown, in_flight"])
        #expect(try ResultsText.outcomes(some) == [.unknown, .inFlight])
        let wrong = try Self.parse(["results", "a", "--outcome", "unknwon"])
        let failure = #expect(throws: Failure.self) { try ResultsText.outcomes(wrong) }
        #expect(failure?.code == 64)
        #expect(failure?.message.contains("did you mean \"unknown\"?") == true)
        let none = try Self.parse(["results", "a", "--outcome", ","])
        #expect(throws: Failure.self) { try ResultsText.outcomes(none) }
        #expect(throws: Failure.self) { try Self.parse(["results"]) }
    }

    private static func report(
        _ state: String, _ classes: [RecipientClass: Int] = [:], reason: String = ""
    ) -> CampaignReport {
        CampaignReport(
            id: "a", fields: ["state": state, "reason": reason], classes: classes, counters: [:])
    }

    @Test("a campaign without results says why, others are read")
    func refusals() {
        for (state, words) in [
            ("planning", "still planned"), ("failed", "no audience"), ("retiring", "--retain"),
        ] {
            let text = ResultsText.refusal(Self.report(state, reason: "no audience"))
            #expect(text?.contains(words) == true)
        }
        for state in ["running", "paused", "cancelling", "cancelled", "completed", "inconsistent"] {
            #expect(ResultsText.refusal(Self.report(state)) == nil)
        }
    }

    @Test(
        "the status of what was stopped has the exact count not sent, and unusual states a meaning")
    func status() {
        let classes: [RecipientClass: Int] = [
            .untouched: 1000, .deferred: 200, .inFlight: 4, .accepted: 5, .cancelled: 30,
        ]
        for state in ["paused", "cancelling", "cancelled"] {
            let report = Self.report(state, classes)
            #expect(StatusText.full(report).contains("  not sent             1,230\n"))
            #expect(StatusText.json(report, rate: 0)["not_sent"] == 1230)
        }
        let running = Self.report("running", classes)
        #expect(!StatusText.full(running).contains("not sent"))
        #expect(StatusText.json(running, rate: 0)["not_sent"] == 1230)
        #expect(StatusText.full(Self.report("cancelling")).contains("still answered and counted"))
        #expect(StatusText.full(Self.report("inconsistent")).contains("removed keys of it"))
        #expect(StatusText.full(Self.report("retiring")).contains("being removed"))
        let waiting = Self.report("planning", reason: "planning waits: Redis is out of memory")
        #expect(StatusText.full(waiting).contains("out of memory"))
    }

    @Test("health is what the status file says, unless it is old or no such file")
    func health() {
        func fault(_ text: String, now: Int64 = 105_000) -> String? {
            HealthText.fault(Array(text.utf8), path: "s", maxAgeMilliseconds: 10_000, now: now)
        }
        let ready = #"{"at_ms": 100000, "ready": true, "reasons": {}}"#
        #expect(fault(ready) == nil)
        #expect(fault(ready, now: 110_000) == nil)
        #expect(fault(ready, now: 111_000) == "s is 11 s old; the worker hangs or has ended")
        #expect(fault(ready, now: 80_000) != nil)
        let not = """
            {"at_ms": 100000, "ready": false, "reasons": {"redis": "is\\naway", "apns": "refused"}}
            """
        #expect(fault(not) == "apns: refused; redis: is away")
        for text in ["", "{}", "[1]", #"{"at_ms": 100000, "ready": true}"#] {
            #expect(fault(text) == "s is no status file of a worker")
        }
    }

    @Test("campaigns are kept for days, a year at most and never for no time at all")
    func retain() throws {
        let line = ["worker", "--apps", "a.json"]
        let day: Int64 = 86_400_000_000_000
        #expect(try Self.parse(line).duration("retain") == 7 * day)
        #expect(try Self.parse(line + ["--retain", "36h"]).duration("retain") == day / 2 * 3)
        for text in ["0", "366d", "-1d", "7"] {
            let parsed = try Self.parse(line + ["--retain=\(text)"])
            let failure = #expect(throws: Failure.self) {
                try parsed.duration("retain", in: WorkerOptions.retain)
            }
            #expect(failure?.code == 64)
        }
        #expect(throws: Never.self) {
            try Self.parse(line + ["--retain", "365d"]).duration("retain", in: WorkerOptions.retain)
        }
    }
}
