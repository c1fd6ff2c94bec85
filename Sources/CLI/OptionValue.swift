/// The spellings of lengths of time and shares on the command line.
enum OptionValue {
    private static let units: [(suffix: String, nanoseconds: Double)] = [
        ("ns", 1), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9),
        ("d", 86_400e9),
    ]

    /// Nanoseconds of `20ms`, `5s`, `1.5m`, `2h`, `1d`; 0 needs no unit; nil for anything else.
    static func duration(_ text: String) -> Int64? {
        if text == "0" { return 0 }
        let number = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        let suffix = text.dropFirst(number.count)
        guard let amount = Double(number), amount >= 0,
            let unit = units.first(where: { $0.suffix == suffix })
        else { return nil }
        return Int64(exactly: (amount * unit.nanoseconds).rounded())
    }

    /// The shortest spelling of a length of time: 1500000000 is `1500ms`.
    static func text(duration nanoseconds: Int64) -> String {
        if nanoseconds == 0 { return "0" }
        for unit in units.reversed() where unit.suffix != "µs" {
            let size = Int64(unit.nanoseconds)
            if nanoseconds % size == 0 { return "\(nanoseconds / size)\(unit.suffix)" }
        }
        return "\(nanoseconds)ns"
    }

    /// The share of `2%` or `0.02`, from 0 to 1; nil for anything else.
    static func share(_ text: String) -> Double? {
        let share: Double?
        if text.hasSuffix("%") {
            share = Double(text.dropLast()).map { $0 / 100 }
        } else {
            share = Double(text)
        }
        guard let share, (0...1).contains(share) else { return nil }
        return share
    }
}

/// The text without spaces around it.
func trimmed(_ text: some StringProtocol) -> String {
    var rest = Substring(text)
    while rest.first?.isWhitespace == true { rest.removeFirst() }
    while rest.last?.isWhitespace == true { rest.removeLast() }
    return String(rest)
}
