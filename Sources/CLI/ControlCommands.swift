internal import JobQueue
internal import Redis

/// `peal pause`: all workers stop sending a campaign.
let pauseCommand = Command(
    name: "pause", summary: "Pauses campaigns; what is on the wire is still answered.",
    arguments: "ID…", argumentCount: 1...1000, options: RedisOptions.all + [ahead],
    details: """
        All workers stop within a second; a campaign that is still planned is paused when its plan
        is complete. peal status ID shows what was not sent.
        """,
    examples: [("peal pause autumn-sale", "Stops it until peal resume autumn-sale.")]
) { try control($0, .pause, reason: "peal pause") }

/// `peal resume`: a paused campaign goes on.
let resumeCommand = Command(
    name: "resume", summary: "Lets paused campaigns go on with exactly what was not sent.",
    arguments: "ID…", argumentCount: 1...1000, options: RedisOptions.all + [ahead],
    examples: [("peal resume autumn-sale", "Goes on after a pause, by hand or by a breaker.")]
) { try control($0, .resume, reason: "") }

/// `peal cancel`: a campaign ends.
let cancelCommand = Command(
    name: "cancel", summary: "Ends campaigns for good: who was not sent to yet is cancelled.",
    arguments: "ID…", argumentCount: 1...1000, options: RedisOptions.all + [ahead],
    details: """
        All workers stop within a second. What is on the wire is still answered and counted, the
        rest ends as cancelled; the state is cancelling until everybody is in a final class, then
        cancelled. It works also when Redis is out of memory. It cannot be undone.
        """,
    examples: [("peal cancel autumn-sale", "Ends it; peal status autumn-sale has the account.")]
) { try control($0, .cancel, reason: "peal cancel") }

private let ahead = Option(
    switch: "ahead", "Obey also when the job is still on the intake list (within 7 days).")

private func control(
    _ parsed: Parsed, _ action: JobStore.ControlAction, reason: String
) throws -> Int32 {
    let store = try RedisOptions.store(parsed)
    let isAhead = try parsed.isOn("ahead")
    var code = ExitCode.success
    for id in parsed.arguments {
        let state = try RedisOptions.calling {
            try store.control(campaign: id, action, reason: reason, ahead: isAhead)
        }
        switch state {
        case "ahead":
            Terminal.print("\(id): not known yet; \(action.rawValue) when its job is taken\n")
        case "planning":
            Terminal.print("\(id): planning; \(action.rawValue) when its plan is complete\n")
        case let state?:
            Terminal.print("\(id): \(state)\n")
            if !ControlText.isObeyed(action, state) {
                Terminal.complain(
                    "peal \(action.rawValue): \(id) is \(state); nothing was changed\n")
                code = ExitCode.found
            }
        case nil:
            Terminal.complain(
                "peal \(action.rawValue): there is no campaign \(id); peal status lists them "
                    + "(its job may still be on the intake list: --ahead)\n")
            code = ExitCode.found
        }
    }
    return code
}

enum ControlText {
    /// Whether a campaign in this state is as the control wants it.
    static func isObeyed(_ action: JobStore.ControlAction, _ state: String) -> Bool {
        switch action {
        case .pause: state == "paused"
        case .resume: state == "running"
        case .cancel: state == "cancelling" || state == "cancelled"
        }
    }
}
