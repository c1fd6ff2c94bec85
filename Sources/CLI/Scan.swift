internal import Base

/// Reads the words after a command: options in any order, arguments, and `--`, after which
/// everything is an argument.
struct Scan {
    let command: Command
    var arguments: [String] = []
    var values: [String: Parsed.Value] = [:]

    init(command: Command) { self.command = command }

    /// Reads the words and returns whether help is asked for.
    mutating func read(_ words: [String]) throws(Failure) -> Bool {
        var rest = words[...]
        while let word = rest.popFirst() {
            if word == "--help" || word == "-h" { return true }
            if word == "--" {
                arguments += rest
                break
            }
            guard word.hasPrefix("-"), word != "-" else {
                arguments.append(word)
                continue
            }
            try option(word, &rest)
        }
        guard command.argumentCount.contains(arguments.count) else {
            let wanted = command.arguments.isEmpty ? "no argument" : command.arguments
            throw .usage(
                "takes \(wanted), not \(arguments.count) argument\(arguments.count == 1 ? "" : "s")"
                    + "; see peal help \(command.name)")
        }
        return false
    }

    private mutating func option(
        _ word: String, _ rest: inout ArraySlice<String>
    ) throws(Failure) {
        let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let flag = String(parts[0])
        guard let option = command.options.first(where: { $0.flag == flag }) else {
            let hint = Nearest.hint(for: flag, among: command.options.map(\.flag) + ["--help"])
            throw .usage("there is no option \(flag)\(hint); see peal help \(command.name)")
        }
        let text: String
        if parts.count == 2 {
            text = String(parts[1])
        } else if option.isSwitch {
            text = "true"
        } else if let next = rest.first, !next.hasPrefix("--") {
            rest.removeFirst()
            text = next
        } else {
            throw .usage("\(flag) needs a value; write \(flag) \(option.placeholder ?? "VALUE")")
        }
        guard values[option.name] == nil else {
            throw .usage("\(flag) is given twice; give it once")
        }
        values[option.name] = .init(text: text, origin: .flag(flag))
    }
}
