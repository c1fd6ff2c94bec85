internal import Glibc

/// Where a value was given.
enum Origin: Equatable, Sendable {
    case flag(String)
    case environment(String)
    case file(String, key: String)
    case standard(String)

    /// The place in words, for an error message.
    var place: String {
        switch self {
        case .flag(let flag): flag
        case .environment(let name): "environment variable \(name)"
        case .file(let path, let key): "key \"\(key)\" in \(path)"
        case .standard(let flag): "default of \(flag)"
        }
    }

    /// A wrong flag is a wrong command line; a wrong variable or file is a wrong configuration.
    var code: Int32 {
        if case .flag = self { ExitCode.usage } else { ExitCode.configuration }
    }
}

/// A command's arguments and the value of each of its options, with where it came from.
struct Parsed: Sendable {
    struct Value: Equatable, Sendable {
        let text: String
        let origin: Origin
    }

    let command: Command
    let arguments: [String]
    let values: [String: Value]

    /// Whether the option has a value, from anywhere or by default.
    func has(_ name: String) -> Bool { value(name) != nil }

    /// The text of an option that must have one.
    func text(_ name: String) throws(Failure) -> String { try required(name).text }

    /// The text of an option, or nil.
    func optionalText(_ name: String) -> String? { value(name)?.text }

    /// The parts of a text separated by commas; empty without a value.
    func texts(_ name: String) -> [String] {
        (value(name)?.text ?? "").split(separator: ",").map { trimmed($0) }
            .filter { !$0.isEmpty }
    }

    /// Whether a switch is on.
    func isOn(_ name: String) throws(Failure) -> Bool {
        guard let value = value(name) else { return false }
        switch value.text.lowercased() {
        case "true", "yes", "on", "1": return true
        case "false", "no", "off", "0", "": return false
        default: throw wrong(value, "is neither true nor false", "write true or false")
        }
    }

    /// A whole number within `range`.
    func integer(_ name: String, in range: ClosedRange<Int> = 0...Int.max) throws(Failure) -> Int {
        let value = try required(name)
        let digits = value.text.filter { $0 != "_" }
        guard let number = Int(digits) else {
            throw wrong(value, "is not a whole number", "give one \(words(range))")
        }
        guard range.contains(number) else {
            throw wrong(value, "is out of range", "give a whole number \(words(range))")
        }
        return number
    }

    /// A number within `range`.
    func double(_ name: String, in range: ClosedRange<Double>) throws(Failure) -> Double {
        let value = try required(name)
        guard let number = Double(value.text), range.contains(number) else {
            throw wrong(
                value, "is not a number from \(range.lowerBound) to \(range.upperBound)",
                "change it")
        }
        return number
    }

    /// A length of time in nanoseconds: `20ms`, `5s`, `1.5m`, `2h`, `7d`.
    func duration(
        _ name: String, in range: ClosedRange<Int64> = 0...Int64.max
    ) throws(Failure) -> Int64 {
        let value = try required(name)
        guard let nanoseconds = OptionValue.duration(value.text) else {
            throw wrong(value, "is not a length of time", "write it like 20ms, 5s, 10m, 1h or 7d")
        }
        guard range.contains(nanoseconds) else {
            let low = OptionValue.text(duration: range.lowerBound)
            let high = OptionValue.text(duration: range.upperBound)
            throw wrong(value, "is out of range", "give \(low) to \(high)")
        }
        return nanoseconds
    }

    /// A share from 0 to 1: `2%` or `0.02`.
    func share(_ name: String) throws(Failure) -> Double {
        let value = try required(name)
        guard let share = OptionValue.share(value.text) else {
            throw wrong(value, "is not a share", "write it like 2% or 0.02, from 0 to 1")
        }
        return share
    }

    /// A folder that exists and may be read, or nil without a value.
    func folder(_ name: String) throws(Failure) -> String? {
        guard let value = value(name) else { return nil }
        var status = stat()
        guard stat(value.text, &status) == 0 else {
            throw wrong(value, "cannot be looked at", String(cString: strerror(errno)))
        }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            throw wrong(value, "is no folder", "name a folder")
        }
        guard access(value.text, R_OK | X_OK) == 0 else {
            throw wrong(value, "may not be read", "give this user the right to")
        }
        return value.text
    }

    /// The error for a value that is wrong for a reason that only the command knows.
    func wrong(_ name: String, _ what: String, _ advice: String) -> Failure {
        guard let value = value(name) else {
            return .usage("\(Option.flag(name)) is missing: \(advice)")
        }
        return wrong(value, what, advice)
    }

    private func wrong(_ value: Value, _ what: String, _ advice: String) -> Failure {
        Failure(
            code: value.origin.code, "\(value.origin.place): \"\(value.text)\" \(what); \(advice)")
    }

    private func value(_ name: String) -> Value? {
        precondition(
            command.options.contains { $0.name == name },
            "The command \(command.name) asks for the option \(name), which it does not declare.")
        return values[name]
    }

    private func required(_ name: String) throws(Failure) -> Value {
        if let value = value(name) { return value }
        guard let option = command.options.first(where: { $0.name == name }) else {
            throw .usage("\(Option.flag(name)) is missing")
        }
        throw .usage(
            "\(option.flag) is missing; give \(option.flag) \(option.placeholder ?? "") or set "
                + option.environmentName)
    }

    private func words(_ range: ClosedRange<Int>) -> String {
        range.upperBound == Int.max
            ? "of at least \(range.lowerBound)" : "from \(range.lowerBound) to \(range.upperBound)"
    }
}

extension Option {
    static func flag(_ name: String) -> String { "--\(name)" }
}
