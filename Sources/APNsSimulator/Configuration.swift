internal import Base

/// How a simulator behaves.
package struct SimulatorConfiguration: Sendable {
    package enum Mode: String, Sendable, CaseIterable {
        /// Checks every request as APNs would.
        case strict
        /// Answers 200 to everything, as cheaply as possible.
        case fast
    }

    package var host = "127.0.0.1"
    /// 0 for a free port.
    package var port = 0
    /// PEM files of the server's certificate chain and private key.
    package var certificate: String
    package var key: String
    package var mode = Mode.strict
    /// What a provider token must be.
    package var providerTokens = ProviderTokenCheck.Rules()
    /// Bundle IDs that may be pushed to; empty for any.
    package var topics: [String] = []
    package var population = Population()
    /// Nanoseconds between a request and its answer.
    package var latency: Int64 = 0
    /// Requests per second and connection, before a headroom of 10 %; 0 for no limit.
    package var rateLimit = 1500
    /// A file that gets one line for each request, or nil.
    package var record: String?
    /// Threads, each with its own share of the connections.
    package var loops = 1
    /// Faults and settings for strict mode, or nil.
    package var script: Script?
    /// The port of the control endpoint on loopback, 0 for a free one, nil for none.
    package var control: Int?

    package init(certificate: String, key: String) {
        self.certificate = certificate
        self.key = key
    }

    /// Whether there is a script, or one may come.
    var isScriptable: Bool { script != nil || control != nil }
}

/// What a simulator has answered so far.
package struct SimulatorCounts: Sendable, Equatable {
    /// Connections that reached HTTP/2.
    package internal(set) var connections = 0
    /// Connections that broke before.
    package internal(set) var failedHandshakes = 0
    package internal(set) var requests = 0
    /// Pushes that were accepted, whether or not that could be told.
    package internal(set) var accepted = 0
    /// Requests that got no answer, whatever became of them.
    package internal(set) var unanswered = 0
    /// Requests that nobody looked at.
    package internal(set) var unprocessed = 0
    /// Requests that were refused, by reason.
    package internal(set) var faults: [Fault: Int] = [:]
    /// Refusals that a script spelt out otherwise than Apple, by status and reason.
    package internal(set) var others: [String: Int] = [:]
    /// Streams that were refused because the peer had not yet seen a lower limit.
    package internal(set) var refusedStreams = 0
    /// Streams that the peer opened above a limit that it had acknowledged.
    package internal(set) var limitViolations = 0

    mutating func add(_ answer: Answer, _ verdict: Verdict, isAnswered: Bool) {
        if !isAnswered { unanswered += 1 }
        switch verdict {
        case .accepted: accepted += 1
        case .unprocessed: unprocessed += 1
        case .refused:
            if let fault = answer.reason.flatMap(Fault.init), fault.status == answer.status {
                faults[fault, default: 0] += 1
            } else {
                let reason = answer.reason.map { " " + $0 } ?? ""
                others["\(answer.status)\(reason)", default: 0] += 1
            }
        }
    }

    /// One line for people.
    package var summary: String {
        var parts = ["200 \(accepted)"]
        for fault in Fault.allCases {
            if let count = faults[fault] {
                parts.append("\(fault.status) \(fault.rawValue) \(count)")
            }
        }
        for (name, count) in others.sorted(by: { $0.key < $1.key }) {
            parts.append("\(name) \(count)")
        }
        if limitViolations > 0 { parts.append("above the stream limit \(limitViolations)") }
        if unanswered > 0 { parts.append("unanswered \(unanswered)") }
        if failedHandshakes > 0 { parts.append("failed handshakes \(failedHandshakes)") }
        return "\(requests) requests on \(connections) connections: "
            + parts.joined(separator: ", ")
    }
}
