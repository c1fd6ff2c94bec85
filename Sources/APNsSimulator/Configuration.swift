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

    package init(certificate: String, key: String) {
        self.certificate = certificate
        self.key = key
    }
}

/// What a simulator has answered so far.
package struct SimulatorCounts: Sendable, Equatable {
    /// Connections that reached HTTP/2.
    package internal(set) var connections = 0
    /// Connections that broke before.
    package internal(set) var failedHandshakes = 0
    package internal(set) var requests = 0
    package internal(set) var accepted = 0
    package internal(set) var unanswered = 0
    package internal(set) var faults: [Fault: Int] = [:]

    mutating func add(_ answer: Answer) {
        requests += 1
        switch answer {
        case .accepted: accepted += 1
        case .refused(let fault, _): faults[fault, default: 0] += 1
        case .silence: unanswered += 1
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
        if unanswered > 0 { parts.append("unanswered \(unanswered)") }
        if failedHandshakes > 0 { parts.append("failed handshakes \(failedHandshakes)") }
        return "\(requests) requests on \(connections) connections: "
            + parts.joined(separator: ", ")
    }
}
