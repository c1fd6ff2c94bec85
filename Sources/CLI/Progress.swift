internal import Base
internal import JobQueue

/// Progress of campaigns while somebody watches: a bar on a terminal, plain lines otherwise.
struct Progress {
    private static let width = 30

    private let isTerminal: Bool
    private var last: [String: (ended: Int, at: Instant)] = [:]
    private var smoothed: [String: Double] = [:]

    init(isTerminal: Bool) { self.isTerminal = isTerminal }

    /// Ended recipients per second, smoothed over the latest looks.
    mutating func rate(_ report: CampaignReport, _ now: Instant) -> Double {
        let ended = StatusText.ended(report)
        defer { last[report.id] = (ended, now) }
        guard let (before, at) = last[report.id] else { return 0 }
        let fresh = Double(max(0, ended - before)) * 1e9 / Double(max(now - at, 1))
        let rate = smoothed[report.id].map { $0 * 0.6 + fresh * 0.4 } ?? fresh
        smoothed[report.id] = rate
        return rate
    }

    /// One line; on a terminal it overwrites itself until the last one.
    func line(_ report: CampaignReport, _ rate: Double, isLast: Bool) -> String {
        let total = max(report.total, 1)
        let ended = StatusText.ended(report)
        let share = report.state == "planning" ? 0 : Double(ended) / Double(total)
        var text = "\(report.id) \(report.state) "
        if isTerminal {
            let filled = Int(share * Double(Progress.width))
            text +=
                "[" + String(repeating: "#", count: filled)
                + String(repeating: ".", count: Progress.width - filled) + "] "
        }
        text +=
            "\(Int(share * 100)) % \(StatusText.grouped(ended))/\(StatusText.grouped(report.total))"
        text += " \(StatusText.grouped(Int(rate)))/s"
        if rate > 1, !isLast {
            text += " \(Progress.time(Int(Double(report.remaining) / rate))) left"
        }
        return isTerminal && !isLast
            ? "\r\u{1B}[K\(text)" : (isTerminal ? "\r\u{1B}[K" : "") + text + "\n"
    }

    /// `75` as `1:15`, `3700` as `1:01:40`.
    static func time(_ seconds: Int) -> String {
        func two(_ value: Int) -> String { value < 10 ? "0\(value)" : "\(value)" }
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60)
        return hours > 0
            ? "\(hours):\(two(minutes)):\(two(seconds % 60))" : "\(minutes):\(two(seconds % 60))"
    }
}
