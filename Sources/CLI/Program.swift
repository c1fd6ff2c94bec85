internal import Base
internal import JSON

/// The commands of the program and what they share: finding one, reading its options, help.
///
/// A value is looked for in this order: flag, `PEAL_*` environment variable, configuration file,
/// default. It touches nothing outside but what it is given, so its tests need no process.
struct Program: Sendable {
    let commands: [Command]

    /// What a command line asks for.
    enum Request: Sendable {
        /// Print this and end well.
        case print(String)
        case run(Command, Parsed)
    }

    /// Reads a command line.
    ///
    /// - Parameters:
    ///   - line: The arguments without the program's name.
    ///   - environment: All environment variables.
    ///   - read: Reads a configuration file; its error is one line.
    /// - Returns: What to do.
    /// - Throws: What is wrong with the line, the environment or the file.
    func request(
        _ line: [String], environment: [String: String],
        read: (String) throws(Failure) -> [UInt8]
    ) throws(Failure) -> Request {
        guard let name = line.first else { return .print(help) }
        switch name {
        case "--help", "-h": return .print(help)
        case "--version", "-V": return .print("peal \(Version.text)\n")
        case "help":
            guard line.count > 1 else { return .print(help) }
            return .print(try command(line[1]).help)
        default: break
        }
        let command = try command(name)
        var scan = Scan(command: command)
        if try scan.read(Array(line.dropFirst())) { return .print(command.help) }
        var values = try fromEnvironment(command, environment)
        values.merge(scan.values) { _, flag in flag }
        if let config = values[Option.config.name] {
            let bytes = try read(config.text)
            let file = try fromFile(command, path: config.text, bytes)
            values.merge(file) { given, _ in given }
        }
        for option in command.options {
            guard let standard = option.standard, values[option.name] == nil else { continue }
            values[option.name] = .init(text: standard, origin: .standard(option.flag))
        }
        return .run(command, Parsed(command: command, arguments: scan.arguments, values: values))
    }

    private func command(_ name: String) throws(Failure) -> Command {
        if let command = commands.first(where: { $0.name == name }) { return command }
        let hint = Nearest.hint(for: name, among: commands.map(\.name))
        throw .usage("there is no command \"\(name)\"\(hint); peal help lists them")
    }

    private var allOptions: [Option] { commands.flatMap(\.options) }

    /// The command's values in the environment.
    ///
    /// A variable that looks like a misspelt option is refused. Others are left alone, since
    /// Kubernetes adds variables such as PEAL_SERVICE_HOST by itself.
    private func fromEnvironment(
        _ command: Command, _ environment: [String: String]
    ) throws(Failure) -> [String: Parsed.Value] {
        let known = Set(allOptions.map(\.environmentName))
        let isPlatform = { (name: String) in name.contains("_SERVICE_") || name.contains("_PORT") }
        for name in environment.keys.sorted()
        where name.hasPrefix("PEAL_") && !known.contains(name) && !isPlatform(name) {
            let tail = String(name.dropFirst(5))
            guard let near = Nearest.name(to: tail, among: known.map { String($0.dropFirst(5)) })
            else { continue }
            throw .configuration(
                "environment variable \(name) belongs to no command (did you mean "
                    + "PEAL_\(near)?); rename or unset it")
        }
        var values: [String: Parsed.Value] = [:]
        for option in command.options {
            guard let text = environment[option.environmentName], !text.isEmpty else { continue }
            values[option.name] = .init(text: text, origin: .environment(option.environmentName))
        }
        return values
    }

    /// The command's values in a configuration file; keys of other commands are left alone.
    private func fromFile(
        _ command: Command, path: String, _ bytes: [UInt8]
    ) throws(Failure) -> [String: Parsed.Value] {
        let json: JSONValue
        do { json = try JSONValue.parse(bytes) } catch {
            throw .configuration("\(path) is not JSON: \(error); correct the file")
        }
        guard let members = json.object else {
            throw .configuration("\(path) holds \(json.kind); it must hold one JSON object")
        }
        let known = allOptions.map(\.fileKey).filter { $0 != Option.config.fileKey }
        var values: [String: Parsed.Value] = [:]
        for key in JSONValue.sorted(members.keys) {
            guard known.contains(key) else {
                let hint = Nearest.hint(for: key, among: known)
                throw .configuration(
                    "key \"\(key)\" in \(path) belongs to no command\(hint); correct or remove it")
            }
            guard let option = command.options.first(where: { $0.fileKey == key }),
                let value = members[key]
            else { continue }
            guard let text = plainText(value) else {
                throw .configuration(
                    "key \"\(key)\" in \(path) is \(value.kind); write a string, a number, true, "
                        + "false or an array of strings")
            }
            values[option.name] = .init(text: text, origin: .file(path, key: key))
        }
        return values
    }

    private func plainText(_ value: JSONValue) -> String? {
        switch value {
        case .string(let text): return text
        case .bool, .integer, .number: return value.text
        case .array(let elements):
            let texts = elements.compactMap(\.string)
            return texts.count == elements.count ? texts.joined(separator: ",") : nil
        case .null, .object: return nil
        }
    }

    /// The text of `peal help`.
    var help: String {
        let width = (commands.map(\.name.count).max() ?? 0) + 2
        var text = """
            peal sends campaigns of Apple push notifications from Redis and accounts for each one.

            Usage: peal COMMAND [options]

            Commands:

            """
        for command in commands {
            let gap = String(repeating: " ", count: width - command.name.count)
            text += "  \(command.name)\(gap)\(command.summary)\n"
        }
        text += """

            peal help COMMAND prints a command's options and examples; peal --version the version.
            An option is looked for as a flag, then as PEAL_* in the environment, then in the
            configuration file (--config or PEAL_CONFIG), then its default holds.

            """
        return text
    }
}

extension Program {
    /// Runs a command line and returns the exit code; an error is one line on standard error.
    func main(_ line: [String], _ environment: [String: String]) -> Int32 {
        let speaker = commands.contains { $0.name == line.first } ? "peal \(line[0])" : "peal"
        do {
            switch try request(line, environment: environment, read: Terminal.configuration) {
            case .print(let text):
                Terminal.print(text)
                return ExitCode.success
            case .run(let command, let parsed): return try command.run(parsed)
            }
        } catch let failure as Failure {
            Terminal.complain("\(speaker): \(failure.message)\n")
            return failure.code
        } catch {
            Terminal.complain("\(speaker): \(error)\n")
            return ExitCode.invariant
        }
    }
}
