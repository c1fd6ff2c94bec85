import TestKit
import Testing

@testable import peal

@Suite("Commands and options")
struct OptionsTests {
    static let send = Command(
        name: "send", summary: "Sends.", arguments: "FILE…", argumentCount: 0...2,
        options: [
            Option("redis", "URL", default: "redis://localhost", "Where Redis is."),
            Option("apns-ca", "FILE", "Certificates to trust."),
            Option("rate", "N", default: "1500", "Requests each second."),
            Option("wait", "TIME", default: "5s", "How long to wait."),
            Option("gone", "SHARE", default: "2%", "Share of dead tokens."),
            Option(switch: "json", "Print JSON."),
        ], examples: [("peal send a.json", "Sends a campaign.")]
    ) { _ in 0 }
    static let other = Command(
        name: "other", summary: "Another.", options: [Option("color", "NAME", "A color.")]
    ) { _ in 0 }
    static let program = Program(commands: [send, other])

    static func parse(
        _ line: [String], _ environment: [String: String] = [:], file: String = "{}"
    ) throws -> Parsed? {
        let request = try program.request(line, environment: environment) { _ in
            Array(file.utf8)
        }
        guard case .run(_, let parsed) = request else { return nil }
        return parsed
    }

    @Test("a flag wins over the environment, that over the file, that over the default")
    func precedence() throws {
        let file = "{\"redis\": \"file\", \"color\": \"blue\"}"
        let environment = ["PEAL_CONFIG": "a.json", "PEAL_REDIS": "environment"]
        let line = ["send", "--redis", "flag"]
        let all = try #require(try Self.parse(line, environment, file: file))
        #expect(try all.text("redis") == "flag")
        let two = try #require(try Self.parse(["send"], environment, file: file))
        #expect(try two.text("redis") == "environment")
        let one = try #require(try Self.parse(["send", "--config=a.json"], [:], file: file))
        #expect(try one.text("redis") == "file")
        let none = try #require(try Self.parse(["send"]))
        #expect(try none.text("redis") == "redis://localhost")
        #expect(none.optionalText("apns-ca") == nil)
    }

    @Test("names of flags, variables and file keys follow from the option's name")
    func names() throws {
        let option = Option("apns-ca", "FILE", "")
        #expect(option.flag == "--apns-ca")
        #expect(option.environmentName == "PEAL_APNS_CA")
        #expect(option.fileKey == "apns_ca")
    }

    @Test("typed values are read in the spellings of the help")
    func typed() throws {
        let line = ["send", "a", "--rate=1_000", "--wait", "1.5m", "--gone", "0.5%", "--json", "b"]
        let parsed = try #require(try Self.parse(line))
        #expect(parsed.arguments == ["a", "b"])
        #expect(try parsed.integer("rate", in: 1...1500) == 1000)
        #expect(try parsed.duration("wait") == 90_000_000_000)
        #expect(try parsed.share("gone") == 0.005)
        #expect(try parsed.isOn("json"))
        #expect(OptionValue.duration("20ms") == 20_000_000)
        #expect(OptionValue.duration("20") == nil)
        #expect(OptionValue.duration("-1s") == nil)
        #expect(OptionValue.text(duration: 90_000_000_000) == "90s")
        #expect(OptionValue.share("101%") == nil)
    }

    @Test("a wrong value names the flag, variable or file key it came from")
    func origins() throws {
        let flag = try #require(try Self.parse(["send", "--rate", "fast"]))
        #expect(
            throws: Failure.usage(
                "--rate: \"fast\" is not a whole number; give one from 1 to 1500")
        ) { try flag.integer("rate", in: 1...1500) }
        let variable = try #require(try Self.parse(["send"], ["PEAL_WAIT": "5"]))
        let inVariable = #expect(throws: Failure.self) { try variable.duration("wait") }
        #expect(inVariable?.code == 78)
        #expect(inVariable?.message.contains("environment variable PEAL_WAIT") == true)
        let file = try #require(
            try Self.parse(["send", "--config", "c.json"], file: "{\"rate\": 2000}"))
        let inFile = #expect(throws: Failure.self) { try file.integer("rate", in: 1...1500) }
        #expect(inFile?.code == 78)
        #expect(inFile?.message.hasPrefix("key \"rate\" in c.json: \"2000\"") == true)
    }

    @Test("a folder that is missing or a file is told at the start")
    func folders() throws {
        func folder(_ path: String) throws -> String? {
            try Self.parse(["send"], ["PEAL_REDIS": path])?.folder("redis")
        }
        let files = try TemporaryDirectory()
        try files.write("list.txt", "aa")
        #expect(try folder(files.file("")) == files.file(""))
        let missing = #expect(throws: Failure.self) { try folder(files.file("lists")) }
        #expect(missing?.code == 78)
        #expect(
            missing?.message.hasSuffix("cannot be looked at; No such file or directory") == true)
        let file = #expect(throws: Failure.self) { try folder(files.file("list.txt")) }
        #expect(file?.message.hasSuffix("is no folder; name a folder") == true)
    }

    @Test(
        "a wrong command line ends with 64 and the nearest known name",
        arguments: [
            (["sned"], "did you mean \"send\"?"), (["send", "--jsno"], "did you mean \"--json\"?"),
            (["send", "--redis"], "--redis needs a value"),
            (["send", "--redis", "--json"], "--redis needs a value"),
            (["send", "a", "b", "c"], "takes FILE…, not 3 arguments"),
            (["send", "--json", "--json"], "given twice"),
        ])
    func usage(line: [String], words: String) throws {
        let failure = #expect(throws: Failure.self) { try Self.parse(line) }
        #expect(failure?.code == 64)
        #expect(failure?.message.contains(words) == true)
    }

    @Test("a key or variable that no command knows ends with 78; another command's key does not")
    func unknownKeys() throws {
        let line = ["send", "--config", "c.json"]
        for (file, words) in [
            ("{\"redsi\": 1}", "did you mean \"redis\"?"), ("[1]", "one JSON object"),
            ("{", "is not JSON"), ("{\"redis\": {}}", "is an object"),
        ] {
            let failure = #expect(throws: Failure.self) { try Self.parse(line, file: file) }
            #expect(failure?.code == 78)
            #expect(failure?.message.contains(words) == true)
        }
        let variable = #expect(throws: Failure.self) {
            try Self.parse(["send"], ["PEAL_REDSI": "x"])
        }
        #expect(variable?.code == 78)
        #expect(throws: Never.self) {
            try Self.parse(["send"], ["PEAL_SERVICE_HOST": "10.0.0.1", "PEAL_COLOR": "red"])
        }
    }

    @Test("help names every option with its default and variable")
    func help() throws {
        let parsed = try Self.parse(["send", "--help"])
        #expect(parsed == nil)
        let text = Self.send.help
        for part in ["PEAL_APNS_CA", "default 1500", "peal send a.json", "--config FILE"] {
            #expect(text.contains(part))
        }
        #expect(Self.program.help.contains("  other"))
    }
}
