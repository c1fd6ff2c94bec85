package import Base
internal import Glibc

/// A value in a log line.
package enum LogValue: Sendable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral {
    case text(String)
    case number(Int)
    case decimal(Double)

    package init(stringLiteral value: String) { self = .text(value) }
    package init(integerLiteral value: Int) { self = .number(value) }
}

/// Writes one JSON object per line to standard error: `ts`, `level`, `event`, `message`, then
/// fields.
///
/// Never a provider token, a private key or a whole device token. Lines go out in one `write`, so
/// that those of several threads and processes don't mix.
package struct Log: Sendable {
    package enum Level: Int, Sendable, CaseIterable {
        case debug, info, warning, error

        package init?(name: String) {
            guard let level = Level.allCases.first(where: { "\($0)" == name }) else { return nil }
            self = level
        }
    }

    private let level: Level
    private let common: [(String, LogValue)]

    /// - Parameters:
    ///   - level: lines below it are not written.
    ///   - common: fields of every line, such as the worker.
    package init(level: Level, common: [(String, LogValue)] = []) {
        self.level = level
        self.common = common
    }

    package func debug(_ event: String, _ message: String, _ fields: [(String, LogValue)] = []) {
        write(.debug, event, message, fields)
    }
    package func info(_ event: String, _ message: String, _ fields: [(String, LogValue)] = []) {
        write(.info, event, message, fields)
    }
    package func warning(_ event: String, _ message: String, _ fields: [(String, LogValue)] = []) {
        write(.warning, event, message, fields)
    }
    package func error(_ event: String, _ message: String, _ fields: [(String, LogValue)] = []) {
        write(.error, event, message, fields)
    }

    private func write(
        _ level: Level, _ event: String, _ message: String, _ fields: [(String, LogValue)]
    ) {
        guard level.rawValue >= self.level.rawValue else { return }
        let time = WallClock.rfc3339(milliseconds: WallClock.milliseconds())
        let head: [(String, LogValue)] = [
            ("ts", .text(time)), ("level", .text("\(level)")), ("event", .text(event)),
            ("message", .text(message)),
        ]
        let line = Log.line(head + common + fields)
        line.withUnsafeBytes { _ = Glibc.write(2, $0.baseAddress, $0.count) }
    }

    /// One line of JSON with its end.
    package static func line(_ fields: [(String, LogValue)]) -> [UInt8] {
        var bytes: [UInt8] = [0x7B]
        for (index, (name, value)) in fields.enumerated() {
            if index > 0 { bytes.append(0x2C) }
            quote(name, into: &bytes)
            bytes.append(0x3A)
            switch value {
            case .text(let text): quote(text, into: &bytes)
            case .number(let number): bytes += Array(String(number).utf8)
            case .decimal(let number):
                bytes += Array((number.isFinite ? String(number) : "null").utf8)
            }
        }
        return bytes + [0x7D, 0x0A]
    }

    private static func quote(_ text: String, into bytes: inout [UInt8]) {
        bytes.append(0x22)
        for byte in text.utf8 {
            switch byte {
            case 0x22, 0x5C: bytes += [0x5C, byte]
            case 0x0A: bytes += [0x5C, 0x6E]
            case 0..<0x20:
                bytes += Array("\\u00".utf8) + [Hex.digit(byte >> 4), Hex.digit(byte & 15)]
            default: bytes.append(byte)
            }
        }
        bytes.append(0x22)
    }
}

/// Rolls repeated failures up: the first is told, then one in ten seconds, then the recovery with
/// its length.
package struct Outage: Sendable {
    package enum Report: Sendable, Equatable {
        case first
        /// Still failing: so many failures since the last report.
        case again(count: Int, seconds: Int)
    }

    /// Time between two reports of an outage.
    package static let interval = Nanoseconds.seconds(10)

    private var since: Instant?
    private var reported = Instant(nanoseconds: 0)
    private var count = 0

    package init() {}

    package mutating func failed(now: Instant) -> Report? {
        count += 1
        guard let since else {
            since = now
            reported = now
            count = 0
            return .first
        }
        guard now - reported >= Outage.interval else { return nil }
        defer {
            count = 0
            reported = now
        }
        return .again(count: count, seconds: Int((now - since) / 1_000_000_000))
    }

    /// The length of the outage in seconds when one ends now.
    package mutating func succeeded(now: Instant) -> Int? {
        guard let start = since else { return nil }
        since = nil
        count = 0
        return Int((now - start) / 1_000_000_000)
    }
}
