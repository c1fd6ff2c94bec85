import TestKit

/// The simulator's record in figures: debug builds are too slow for a text per line.
struct Requests {
    struct Line {
        /// Milliseconds since the epoch.
        let time: Double
        /// The campaign's place in the list of names.
        let campaign: Int
        /// The recipient's number in its campaign.
        let index: Int
        /// 200 for what was accepted, told or not; 0 for what got no answer otherwise.
        let status: Int
    }

    private(set) var lines: [Line] = []

    /// - `campaigns`: names of one length, as the tokens of `Fleet.token` begin with them.
    init(_ record: [UInt8], campaigns: [String]) {
        let prefixes = campaigns.map { Array(Fleet.token($0, 0).utf8.prefix($0.utf8.count * 2)) }
        record.withUnsafeBufferPointer { bytes in
            var start = 0
            for place in bytes.indices where bytes[place] == 0x0A {
                if let line = Requests.line(bytes[start..<place], prefixes) { lines.append(line) }
                start = place + 1
            }
        }
    }

    private static func line(
        _ bytes: Slice<UnsafeBufferPointer<UInt8>>, _ prefixes: [[UInt8]]
    ) -> Line? {
        let fields = bytes.split(separator: 0x20)
        guard fields.count == 7, fields[3].count == 64,
            let campaign = prefixes.firstIndex(where: { fields[3].starts(with: $0) })
        else { return nil }
        var time = 0.0
        for byte in fields[0].prefix(13) { time = time * 10 + Double(byte - 0x30) }
        var status = 0
        for byte in fields[5] { status = status * 10 + Int(byte - 0x30) }
        if fields[6].first == 0x61 { status = 200 }  // accepted, told or not
        var index = 0
        for byte in fields[3].suffix(8) {
            index = index << 4 | Int(byte < 0x3A ? byte - 0x30 : byte - 0x57)
        }
        return Line(time: time, campaign: campaign, index: index, status: status)
    }

    /// The longest time without a request between the first and the last one, in milliseconds.
    var longestGap: Double {
        let times = lines.map(\.time).sorted()
        return zip(times, times.dropFirst()).map { $1 - $0 }.max() ?? 0
    }

    /// Requests that arrived in a stretch of time, in milliseconds since the epoch.
    func count(from start: Int64, to end: Int64) -> Int {
        lines.count { $0.time >= Double(start) && $0.time < Double(end) }
    }

    /// Milliseconds from `start` to the first request at or after it.
    func first(after start: Int64) -> Double? {
        lines.filter { $0.time >= Double(start) }.map(\.time).min().map { $0 - Double(start) }
    }

    /// Milliseconds from `start` to the last request before `end`.
    func last(after start: Int64, before end: Int64) -> Double? {
        lines.filter { $0.time >= Double(start) && $0.time < Double(end) }.map(\.time).max()
            .map { $0 - Double(start) }
    }
}
