import APNsSimulator
import Foundation
import JSON
import Testing

@Suite("Simulator: reading a script")
struct ScriptReaderTests {
    private func faults(_ text: String) -> [String] {
        do throws(ScriptFailure) {
            _ = try Script.read(Array(text.utf8))
            return []
        } catch {
            return error.faults.map(\.description)
        }
    }

    private func deed(_ text: String) throws -> Deed {
        let script = try Script.read(Array(#"{"rules":[{"do":\#(text)}]}"#.utf8))
        return try #require(script.rules.first?.deed)
    }

    @Test("the example in deploy is a good script")
    func example() throws {
        let path = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("deploy/faults.example.json")
        let script = try Script.read(Array(try Data(contentsOf: path)))
        #expect(script.rules.count == 7)
        #expect(script.settings.errorScore?.goAwayAt == 1000)
    }

    @Test("all faults are told at once, each with its path, unknown names with the nearest one")
    func allFaults() {
        let text = #"""
            {"rule": [], "rules": [
              {"when": {"tokn": "aa", "connection": 0, "request": {"from": 5, "until": 4}}},
              {"do": {"anser": {}}},
              {"do": {"answer": {"reason": 7}}, "limit": 0},
              {"do": {"reset": {"code": "REFUSED_STREM"}, "close": {}}},
              {"do": {"goaway": {"last": 4, "reason": "a", "text": "b"}}},
              {"do": {"reset": {"code": 7, "processed": true}}},
              7],
             "settings": {"latency": {"tail_share": 2}, "streams_later": "many"}}
            """#
        let faults = faults(text)
        for (path, words) in [
            ("$.rule", #"did you mean "rules""#),
            ("$.rules[0].do", "is missing"), ("$.rules[0].when.tokn", #"did you mean "token""#),
            ("$.rules[0].when.connection", "from 1 to"),
            ("$.rules[0].when.request.until", "less than 5"),
            ("$.rules[1].do.anser", #"did you mean "answer""#),
            ("$.rules[2].do.answer.status", "is missing"),
            ("$.rules[2].do.answer.reason", "write a string"), ("$.rules[2].limit", "from 1"),
            ("$.rules[3].do", "names close and reset"),
            ("$.rules[4].do.goaway.last", "odd"), ("$.rules[4].do.goaway.text", "beside reason"),
            ("$.rules[5].do.reset.processed", "contradicts"), ("$.rules[6]", "write an object"),
            ("$.settings.latency.tail_share", "from 0 to 1"),
            ("$.settings.latency.tail_ms", "is missing"),
            ("$.settings.streams_later", "whole number"),
        ] {
            #expect(
                faults.contains { $0.hasPrefix(path + " ") && $0.contains(words) },
                "\(path): \(words)")
        }
        #expect(faults.count == 17, "\(faults)")
    }

    @Test("what is no object is one fault with its place")
    func noObject() {
        #expect(self.faults("[1]") == ["$ is an array; write an object"])
        let faults = faults(#"{"rules": [}"#)
        #expect(faults.count == 1 && faults[0].contains("line 1, column 12"))
        #expect(self.faults("{}").isEmpty)
    }

    @Test("limits are reached exactly: rules, bytes, delay, size, frames")
    func limits() {
        func rules(_ count: Int) -> String {
            #"{"rules":["#
                + Array(repeating: #"{"do":{"freeze":{}}}"#, count: count).joined(separator: ",")
                + "]}"
        }
        #expect(faults(rules(Script.ruleLimit)).isEmpty)
        #expect(faults(rules(Script.ruleLimit + 1)).count == 1)
        let padding = String(repeating: " ", count: Script.byteLimit - 2)
        #expect(faults("{\(padding)}").isEmpty)
        #expect(faults("{\(padding) }").count == 1)
        for (member, isGood) in [
            (#""delay_ms":3600000"#, true), (#""delay_ms":3600001"#, false),
            (#""size":1048576"#, true), (#""size":1048577"#, false), (#""frames":1000"#, true),
            (#""frames":1001"#, false), (#""text":"","size":1"#, false),
            (#""reason":"\#(String(repeating: "x", count: 1000))""#, true),
            (#""reason":"\#(String(repeating: "x", count: 1001))""#, false),
        ] {
            let text = #"{"rules":[{"do":{"answer":{"status":400,\#(member)}}}]}"#
            #expect(faults(text).isEmpty == isGood, "\(member.prefix(40))")
        }
        #expect(faults(#"{"rules":[{"do":{"answer":{"status":199}}}]}"#).count == 1)
        #expect(faults(#"{"rules":[{"do":{"answer":{"status":600}}}]}"#).count == 1)
    }

    @Test("error codes are names of RFC 9113 or numbers; GOAWAY names its last stream in words")
    func deeds() throws {
        #expect(
            try deed(#"{"reset":{"code":"CANCEL","then":5}}"#)
                == .reset(code: 8, then: 5, processed: false))
        #expect(try deed(#"{"reset":{}}"#) == .reset(code: 7, then: nil, processed: false))
        var goAway = Deed.GoAway()
        goAway.code = 11
        goAway.last = .previous
        goAway.debug = Array(#"{"reason":"Shutdown"}"#.utf8)
        goAway.frames = 2
        #expect(
            try deed(
                #"""
                {"goaway":{"code":"ENHANCE_YOUR_CALM","last":"previous","reason":"Shutdown",
                 "frames":2}}
                """#) == .goAway(goAway))
        #expect(
            try deed(#"{"limit":{"streams":1,"back_after_ms":20}}"#)
                == .limit(streams: 1, back: 20_000_000))
        #expect(
            try deed(#"{"window":{"size":9}}"#) == .window(size: 9, updates: false))
        #expect(
            try deed(#"{"close":{"processed":true}}"#) == .close(processed: true, reset: false))
    }
}
