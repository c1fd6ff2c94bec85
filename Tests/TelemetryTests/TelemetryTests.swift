import Base
import JSON
import Telemetry
import Testing

@Suite("Telemetry")
struct TelemetryTests {
    @Test("a log line is one line of JSON whatever stands in its fields")
    func escaping() throws {
        let ugly = "quote \" backslash \\ line\nfeed \r tab \t bell \u{07} null \u{00} é 🔔"
        let bytes = Log.line([
            ("ts", .text(ugly)), ("a\"b", .text("")), ("count", .number(-3)),
            ("rate", .decimal(1.5)), ("none", .decimal(.infinity)),
        ])
        #expect(bytes.last == 0x0A)
        #expect(!bytes.dropLast().contains { $0 < 0x20 })
        let value = try JSONValue.parse(Array(bytes.dropLast()))
        #expect(
            value
                == .object([
                    "ts": .string(ugly), "a\"b": .string(""), "count": .integer(-3),
                    "rate": .number(1.5), "none": .null,
                ]))
    }

    @Test("levels are known by their names and ordered")
    func levels() {
        #expect(Log.Level(name: "warning") == .warning)
        #expect(Log.Level(name: "loud") == nil)
        #expect(Log.Level.allCases.map(\.rawValue) == [0, 1, 2, 3])
    }

    @Test("an outage is told at once, then every 10 s with its count, then with its length")
    func outage() {
        var outage = Outage()
        var now = Instant(nanoseconds: 1_000_000_000)
        #expect(outage.succeeded(now: now) == nil)
        #expect(outage.failed(now: now) == .first)
        for _ in 0..<99 {
            now = now + Nanoseconds.milliseconds(100)
            #expect(outage.failed(now: now) == nil)
        }
        now = now + Nanoseconds.milliseconds(100)
        #expect(outage.failed(now: now) == .again(count: 100, seconds: 10))
        now = now + Nanoseconds.seconds(3)
        #expect(outage.failed(now: now) == nil)
        #expect(outage.succeeded(now: now) == 13)
        #expect(outage.succeeded(now: now) == nil)
        #expect(outage.failed(now: now) == .first)
    }
}
