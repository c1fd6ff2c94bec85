/// One option of a command.
///
/// Its name gives the flag (`apns-ca`: `--apns-ca`), the environment variable (`PEAL_APNS_CA`) and
/// the key in the configuration file (`apns_ca`).
struct Option: Sendable {
    /// Words in lower case joined by dashes.
    let name: String
    /// What stands for the value in the help; nil for a switch that takes none.
    let placeholder: String?
    /// What it is for, one or two sentences.
    let help: String
    /// The value when nothing else says one, in the spelling of the command line.
    let standard: String?

    /// An option with a value.
    init(_ name: String, _ placeholder: String, default standard: String? = nil, _ help: String) {
        self.name = name
        self.placeholder = placeholder
        self.help = help
        self.standard = standard
    }

    /// A switch, off by default.
    init(switch name: String, _ help: String) {
        self.name = name
        self.placeholder = nil
        self.help = help
        self.standard = nil
    }

    var isSwitch: Bool { placeholder == nil }
    var flag: String { "--\(name)" }
    var fileKey: String { String(name.map { $0 == "-" ? "_" : $0 }) }
    var environmentName: String { "PEAL_\(fileKey.uppercased())" }

    /// The option that every command has.
    static let config = Option(
        "config", "FILE", "Configuration file: one JSON object whose keys are option names.")
}

/// One command of the program, as a value.
struct Command: Sendable {
    let name: String
    /// One line for the list of commands.
    let summary: String
    /// What follows the command besides options, as printed in the usage: `FILE…`.
    let arguments: String
    /// How many of them there may be.
    let argumentCount: ClosedRange<Int>
    let options: [Option]
    /// A paragraph or two for `--help`.
    let details: String
    /// Command lines that work, each with what it does.
    let examples: [(line: String, does: String)]
    /// Does the work and returns the exit code.
    let run: @Sendable (Parsed) throws -> Int32

    init(
        name: String, summary: String, arguments: String = "",
        argumentCount: ClosedRange<Int> = 0...0, options: [Option] = [], details: String = "",
        examples: [(line: String, does: String)] = [],
        run: @escaping @Sendable (Parsed) throws -> Int32
    ) {
        self.name = name
        self.summary = summary
        self.arguments = arguments
        self.argumentCount = argumentCount
        self.options = options + [.config]
        self.details = details
        self.examples = examples
        self.run = run
    }

    /// The text of `peal <command> --help`.
    var help: String {
        var text = "\(summary)\n\nUsage: peal \(name)"
        if !arguments.isEmpty { text += " \(arguments)" }
        text += " [options]\n"
        if !details.isEmpty { text += "\n\(details)\n" }
        text += "\nOptions:\n"
        for option in options {
            text += "  \(option.flag)\(option.placeholder.map { " \($0)" } ?? "")\n"
            text += wrapped(option.help, indent: 6)
            var facts: [String] = []
            if let standard = option.standard { facts.append("default \(standard)") }
            facts.append("environment \(option.environmentName)")
            if option.name != Option.config.name { facts.append("file key \(option.fileKey)") }
            text += wrapped("[\(facts.joined(separator: "; "))]", indent: 6)
        }
        text += "  --help\n      Print this.\n"
        if !examples.isEmpty {
            text += "\nExamples:\n"
            for example in examples {
                text += "  \(example.line)\n" + wrapped(example.does, indent: 6)
            }
        }
        return text
    }

    private func wrapped(_ sentence: String, indent: Int, width: Int = 90) -> String {
        var text = ""
        var line = ""
        for word in sentence.split(whereSeparator: { $0 == " " || $0 == "\n" }) {
            if !line.isEmpty, indent + line.count + 1 + word.count > width {
                text += String(repeating: " ", count: indent) + line + "\n"
                line = ""
            }
            line += line.isEmpty ? String(word) : " \(word)"
        }
        return text + String(repeating: " ", count: indent) + line + "\n"
    }
}
