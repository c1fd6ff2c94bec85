internal import Base
internal import EventLoop
internal import JSON

/// What the control endpoint can be asked for.
///
/// | request | what it does |
/// | --- | --- |
/// | `GET /counts` | says what happened so far |
/// | `PUT /script` | has another script rule, from its beginning; 400 with all faults |
/// | `POST /action` | does one deed now, to all connections or one |
/// | `POST /reset` | sets the counts to zero; the script's own counters go on |
final class ControlDesk: Sendable {
    private let shared: SimulatorShared
    private let loops: [SimulatorLoop]

    init(shared: SimulatorShared, loops: [SimulatorLoop]) {
        self.shared = shared
        self.loops = loops
    }

    /// Answers a request, perhaps later and on another thread.
    func take(
        _ request: ControlRequest, _ reply: @escaping @Sendable (ControlResponse) -> Void
    ) {
        switch (request.path, request.method) {
        case ("/counts", "GET"): reply(.json(200, counts()))
        case ("/script", "PUT"): put(request.body, reply)
        case ("/action", "POST"): act(request.body, reply)
        case ("/reset", "POST"):
            shared.counts.withLock { $0 = SimulatorCounts() }
            shared.reports?.withLock { $0.reset() }
            reply(.json(200, [:]))
        case ("/counts", _): reply(.notAllowed("GET"))
        case ("/script", _): reply(.notAllowed("PUT"))
        case ("/action", _), ("/reset", _): reply(.notAllowed("POST"))
        default: reply(.fault(404, "there are /counts, /script, /action and /reset"))
        }
    }

    private func put(_ body: [UInt8], _ reply: @escaping @Sendable (ControlResponse) -> Void) {
        guard shared.configuration.mode == .strict else {
            reply(.fault(409, "the simulator runs in fast mode, which looks at no request"))
            return
        }
        let script: Script
        do { script = try Script.read(body) } catch {
            reply(.faults(error))
            return
        }
        let run = ScriptRun(script)
        let answer = ControlResponse.json(200, ["rules": .integer(Int64(script.rules.count))])
        onLoops(
            {
                $0.follow(run)
                return 0
            }, then: { _ in reply(answer) })
    }

    private func act(_ body: [UInt8], _ reply: @escaping @Sendable (ControlResponse) -> Void) {
        let action: ImmediateDeed
        do { action = try ImmediateDeed.read(body) } catch {
            reply(.faults(error))
            return
        }
        onLoops({ $0.perform(action) }) { count in
            if count == 0, let number = action.connection {
                reply(.fault(404, "connection \(number) is not open"))
            } else {
                reply(.json(200, ["connections": .integer(Int64(count))]))
            }
        }
    }

    /// Does something on each loop, and then, on the last one, something with the sum.
    private func onLoops(
        _ body: @escaping @Sendable (SimulatorLoop) -> Int,
        then: @escaping @Sendable (Int) -> Void
    ) {
        let state = Lock((left: loops.count, sum: 0))
        for loop in loops {
            loop.loop.submit {
                let result = body(loop)
                let sum = state.withLock { state -> Int? in
                    state.left -= 1
                    state.sum += result
                    return state.left == 0 ? state.sum : nil
                }
                if let sum { then(sum) }
            }
        }
    }

    private func counts() -> JSONValue {
        let counts = shared.counts.withLock { $0 }
        let reports = shared.reports?.withLock { $0.all } ?? []
        func number(_ value: Int) -> JSONValue { .integer(Int64(value)) }
        var reasons: [String: JSONValue] = [:]
        for (fault, count) in counts.faults {
            reasons["\(fault.status) \(fault.rawValue)"] = number(count)
        }
        for (name, count) in counts.others { reasons[name] = number(count) }
        return [
            "requests": number(counts.requests), "accepted": number(counts.accepted),
            "refused": .object(reasons), "unprocessed": number(counts.unprocessed),
            "unanswered": number(counts.unanswered), "connections": number(counts.connections),
            "failed_handshakes": number(counts.failedHandshakes),
            "refused_streams": number(counts.refusedStreams),
            "stream_limit_violations": number(counts.limitViolations),
            "per_connection": .array(
                reports.map {
                    [
                        "connection": number($0.number), "open": .bool($0.isOpen),
                        "requests": number($0.requests),
                        "most_in_a_second": number($0.meter.most),
                    ]
                }),
        ]
    }
}
