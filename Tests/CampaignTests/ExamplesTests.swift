import Campaign
import Foundation
import JSON
import Testing

/// The examples and the schema that backends start from.
@Suite("Examples and schema of jobs")
struct ExamplesTests {
    static let folder = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appending(path: "campaigns")

    static func bytes(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: folder.appending(path: name)))
    }

    static func examples() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path)
            .filter { $0.hasSuffix(".json") && !$0.hasSuffix(".schema.json") }.sorted()
    }

    /// Jobs that both the program and the schema refuse.
    static let bad: [[String: JSONValue?]] = [
        ["id": nil], ["id": ""], ["id": "a b"], ["id": 7], ["app": nil], ["app": "a/b"],
        ["version": 2], ["version": "1"], ["extra": 1], ["environment": "prod"],
        ["push_type": "alrt"], ["push_type": "background"], ["payload": nil],
        ["payload": "Hello"], ["payload": ["link": "/"]], ["payload": ["aps": []]],
        ["payload": ["aps": ["badge": "1"]]], ["payload": ["aps": ["alert": 1]]],
        ["payload": ["aps": ["content-available": 0]]],
        ["payload": ["aps": ["content-available": 1]], "priority": 10],
        ["priority": 7], ["priority": "high"], ["push_type": "pushtotalk", "ttl": 5],
        ["push_type": "liveactivity", "priority": 1], ["ttl": -1], ["ttl": 1.5],
        ["ttl": 5, "expires_at": 0], ["expires_at": "soon"], ["expires_at": 1_796_000_000_000],
        ["deadline": true], ["deadline": 1_796_000_000_000], ["collapse_id": ""],
        ["collapse_id": .string(String(repeating: "x", count: 65))], ["collapse_id": "a\tb"],
        ["audience": nil], ["audience": []], ["audience": [:]], ["audience": ["tokens": []]],
        ["audience": ["tokens": [7]]], ["audience": ["redis_list": ""]], ["audience": ["set": "a"]],
        ["audience": ["file": "a", "tokens": ["aa"]]], ["on_unknown": "retry"],
        ["retry": ["max_tries": 0]], ["retry": ["max_tries": 10]], ["retry": ["tries": 1]],
        ["retry": ["server_error_delay_s": -1]], ["weight": 0], ["weight": 11], ["weight": "2"],
    ]

    /// Jobs that both take, beside the examples.
    static let good: [[String: JSONValue?]] = [
        [:], ["version": 1], ["expires_at": 0], ["ttl": 0], ["priority": "lowest"],
        ["push_type": "mdm", "payload": ["mdm": "magic"]],
        ["payload": ["aps": ["content-available": 1]]], ["deadline": "2035-01-01T00:00:00+02:00"],
        ["push_type": "pushtotalk", "ttl": 0], ["collapse_id": "a b"],
        ["payload": ["aps": ["alert": ["title": "a"], "a-later-key": true]]],
    ]

    @Test("there are at least three examples and each is a job without faults")
    func parsed() throws {
        let names = try Self.examples()
        #expect(names.count >= 3)
        for name in names {
            let job = try Job.parse(try Self.bytes(name), now: now)
            if case .file(let path) = job.audience {
                let file = Self.folder.deletingLastPathComponent().appending(path: path)
                #expect(FileManager.default.fileExists(atPath: file.path), "\(path) of \(name)")
            }
        }
    }

    @Test("the schema takes the examples and good jobs and refuses what the program refuses")
    func schema() throws {
        var texts = try Self.examples().map { try JSONValue.parse(try Self.bytes($0)) }
        texts += try Self.good.map { try JSONValue.parse(job($0)) }
        let goodCount = texts.count
        texts += try Self.bad.map { try JSONValue.parse(job($0)) }
        let verdicts = try #require(try Self.validate(.array(texts)).array)
        try #require(verdicts.count == texts.count)
        for (index, text) in texts.enumerated() {
            let faults = JobTests.faults(text.serialized())
            let fromSchema = verdicts[index].array ?? []
            if index < goodCount {
                #expect(faults.isEmpty, "the program on \(text.text)")
                #expect(fromSchema.isEmpty, "the schema on \(text.text)")
            } else {
                #expect(!faults.isEmpty, "the program on \(text.text)")
                #expect(!fromSchema.isEmpty, "the schema on \(text.text)")
            }
        }
    }

    /// For each job the messages of Python's validator, which knows nothing of this program.
    static func validate(_ jobs: JSONValue) throws -> JSONValue {
        let script = """
            import json, sys
            try:
                from jsonschema import Draft202012Validator as Validator
            except ImportError:
                sys.exit("Python's jsonschema is missing; install the package python3-jsonschema")
            schema = json.load(open(sys.argv[1]))
            Validator.check_schema(schema)
            validator = Validator(schema)
            jobs = json.load(open(sys.argv[2]))
            print(json.dumps([[e.message for e in validator.iter_errors(j)] for j in jobs]))
            """
        let input = FileManager.default.temporaryDirectory
            .appending(path: "peal-jobs-\(ProcessInfo.processInfo.processIdentifier).json")
        try Data(jobs.serialized()).write(to: input)
        defer { try? FileManager.default.removeItem(at: input) }
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        let schema = folder.appending(path: "job.schema.json").path
        process.arguments = ["python3", "-c", script, schema, input.path]
        let output = Pipe()
        let complaints = Pipe()
        process.standardOutput = output
        process.standardError = complaints
        try process.run()
        let answer = try output.fileHandleForReading.readToEnd() ?? Data()
        let words = try complaints.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0, "\(String(decoding: words, as: UTF8.self))")
        return try JSONValue.parse(Array(answer))
    }
}
