import APNsSimulator
import Foundation
import JSON
import Testing

@Suite("Simulator: the control endpoint", .timeLimit(.minutes(1)))
struct ControlTests {
    private func fixture(
        _ change: (inout SimulatorConfiguration) -> Void = { _ in }
    ) throws -> SimulatorFixture {
        try SimulatorFixture {
            $0.control = 0
            change(&$0)
        }
    }

    /// Asks with curl; the status and the JSON of the answer.
    private func ask(
        _ fixture: SimulatorFixture, _ method: String, _ path: String, _ body: String? = nil,
        extra: [String] = []
    ) throws -> (status: Int, json: JSONValue) {
        let curl = Process()
        curl.executableURL = URL(fileURLWithPath: "/usr/bin/curl")
        curl.arguments =
            [
                "--silent", "--max-time", "10", "--request", method, "--write-out",
                "\n%{http_code}",
            ] + extra + (body == nil ? [] : ["--data-binary", "@-"])
            + ["http://127.0.0.1:\(try #require(fixture.simulator.controlPort))\(path)"]
        let (input, output) = (Pipe(), Pipe())
        curl.standardInput = input
        curl.standardOutput = output
        try curl.run()
        if let body { try input.fileHandleForWriting.write(contentsOf: Data(body.utf8)) }
        try input.fileHandleForWriting.close()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        curl.waitUntilExit()
        let text = String(decoding: data, as: UTF8.self)
        let parts = text.split(separator: "\n", omittingEmptySubsequences: false)
        let status = try #require(Int(parts.last ?? ""))
        return (status, try JSONValue.parse(parts.dropLast().joined(separator: "\n")))
    }

    @Test("counts tell what happened, and a reset begins anew while connections keep their numbers")
    func counts() throws {
        let fixture = try fixture()
        _ = try fixture.push(["00", "0", "01"], fields: fixture.fields())
        var counts = try ask(fixture, "GET", "/counts").json
        #expect(counts["requests"] == 3 && counts["accepted"] == 2)
        #expect(counts["refused"] == ["400 BadDeviceToken": 1])
        #expect(counts["connections"] == 1 && counts["stream_limit_violations"] == 0)
        let connection = try #require(counts["per_connection"]?[0])
        #expect(connection["connection"] == 1 && connection["requests"] == 3)
        #expect((1...3).contains(try #require(connection["most_in_a_second"]?.integer)))
        #expect(try ask(fixture, "POST", "/reset").status == 200)
        _ = try fixture.push()
        counts = try ask(fixture, "GET", "/counts").json
        #expect(counts["requests"] == 1 && counts["connections"] == 1)
        #expect(counts["per_connection"]?.array?.last?["connection"] == 2)
    }

    @Test("a script is put while it runs; a wrong one changes nothing and names all its faults")
    func script() throws {
        let fixture = try fixture { $0.loops = 2 }
        #expect(try fixture.push().status == 200)
        let script = #"{"rules":[{"do":{"answer":{"status":418,"reason":"Teapot"}}}]}"#
        let put = try ask(fixture, "PUT", "/script", script)
        #expect(put.status == 200 && put.json["rules"] == 1)
        #expect(try fixture.push().status == 418)
        let wrong = try ask(
            fixture, "PUT", "/script", #"{"ruls":[],"settings":{"seed":"x"}}"#)
        #expect(wrong.status == 400)
        #expect(
            wrong.json["faults"]?.array?.compactMap { $0["path"]?.string }
                == ["$.ruls", "$.settings.seed"])
        #expect(try fixture.push().status == 418)
        #expect(try ask(fixture, "PUT", "/script", "{}").status == 200)
        #expect(try fixture.push().status == 200)
    }

    @Test("actions need no request, name one deed, and a connection that is open")
    func actions() throws {
        let fixture = try fixture()
        #expect(try ask(fixture, "POST", "/action", #"{"freeze":{}}"#).json["connections"] == 0)
        let nobody = try ask(fixture, "POST", "/action", #"{"close":{},"connection":9}"#)
        #expect(nobody.status == 404)
        for wrong in [
            #"{"answer":{"status":200}}"#, "{}", #"{"connection":1}"#, #"{"close":{},"freeze":{}}"#,
            "[]", #"{"close":{},"connection":0}"#,
        ] {
            let answer = try ask(fixture, "POST", "/action", wrong)
            #expect(answer.status == 400 && answer.json["faults"]?.array?.count == 1, "\(wrong)")
        }
    }

    @Test("an action meets the connections that are open now")
    func openConnection() throws {
        let script = try Script.read(Array(#"{"rules":[{"do":{"silence":{}}}]}"#.utf8))
        let fixture = try fixture { $0.script = script }
        let curl = Process()
        curl.executableURL = URL(fileURLWithPath: "/usr/bin/curl")
        curl.arguments = [
            "--silent", "--http2", "--cacert", fixture.files.authority, "--max-time", "30",
            "--data", "{}", "https://localhost:\(fixture.simulator.port)/3/device/00",
        ]
        try curl.run()
        defer { if curl.isRunning { curl.terminate() } }
        var requests: JSONValue?
        for _ in 0..<500 where requests != 1 {
            requests = try ask(fixture, "GET", "/counts").json["requests"]
        }
        #expect(requests == 1)
        let limit = try ask(fixture, "POST", "/action", #"{"limit":{"streams":1},"connection":1}"#)
        #expect(limit.json["connections"] == 1)
        let close = try ask(fixture, "POST", "/action", #"{"close":{"tcp_reset":true}}"#)
        #expect(close.json["connections"] == 1)
        curl.waitUntilExit()
        #expect(curl.terminationStatus != 0 && curl.terminationStatus != 28, "ended, not timed out")
        let counts = try ask(fixture, "GET", "/counts").json
        #expect(counts["per_connection"]?[0]?["open"] == false)
        #expect(counts["unanswered"] == 1 && counts["unprocessed"] == 1)
    }

    @Test("what is no request of ours is refused with its reason")
    func strict() throws {
        let fixture = try fixture()
        #expect(try ask(fixture, "GET", "/").status == 404)
        #expect(try ask(fixture, "POST", "/counts").status == 405)
        #expect(try ask(fixture, "GET", "/script").status == 405)
        func with(_ header: String) throws -> Int {
            try ask(fixture, "GET", "/counts", extra: ["--header", header]).status
        }
        #expect(try with("Host: evil.example") == 403)
        #expect(try with("Host: localhost:1") == 200)
        #expect(try with("Transfer-Encoding: chunked") == 501)
        #expect(try with("X: " + String(repeating: "x", count: 8200)) == 431)
        #expect(try ask(fixture, "GET", "/counts", extra: ["--http1.0"]).status == 505)
        let largest = "{}" + String(repeating: " ", count: (1 << 20) - 2)
        #expect(try ask(fixture, "PUT", "/script", largest).status == 200)
        #expect(try ask(fixture, "PUT", "/script", largest + " ").status == 413)
    }

    @Test("fast mode has counts but takes no script")
    func fast() throws {
        let fixture = try fixture {
            $0.mode = .fast
            $0.record = nil
        }
        _ = try fixture.push(["x", "y"], fields: [])
        let counts = try ask(fixture, "GET", "/counts").json
        #expect(counts["accepted"] == 2 && counts["per_connection"]?[0]?["requests"] == 2)
        #expect(try ask(fixture, "PUT", "/script", "{}").status == 409)
    }

    @Test("a request is read however its bytes are cut")
    func cut() {
        let bytes = Array(
            "PUT /script HTTP/1.1\r\nHost: [::1]:80\r\ncontent-length: 2\r\n\r\n{}".utf8)
        for count in 0..<bytes.count {
            let progress = bytes[..<count].withUnsafeBytes { ControlRequest.read($0) }
            #expect(progress == .incomplete(wantsContinue: false))
        }
        let progress = bytes.withUnsafeBytes { ControlRequest.read($0) }
        guard case .whole(let request) = progress else {
            Issue.record("\(progress)")
            return
        }
        #expect(request.method == "PUT" && request.path == "/script")
        #expect(request.body == Array("{}".utf8))
    }
}
