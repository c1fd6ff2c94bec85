internal import JobQueue
internal import Redis

/// `peal pause`: all workers stop sending a campaign.
let pauseCommand = Command(
    name: "pause", summary: "Pauses campaigns; what is on the wire is still answered.",
    arguments: "ID…", argumentCount: 1...1000, options: RedisOptions.all,
    details: "Workers learn it with their next commit, within a second.",
    examples: [("peal pause autumn-sale", "Stops it until peal resume autumn-sale.")]
) { try control($0, .pause, reason: "peal pause") }

/// `peal resume`: a paused campaign goes on.
let resumeCommand = Command(
    name: "resume", summary: "Lets paused campaigns go on with exactly what was not sent.",
    arguments: "ID…", argumentCount: 1...1000, options: RedisOptions.all,
    examples: [("peal resume autumn-sale", "Goes on after a pause, by hand or by a breaker.")]
) { try control($0, .resume, reason: "") }

private func control(
    _ parsed: Parsed, _ action: JobStore.ControlAction, reason: String
) throws -> Int32 {
    let store = try RedisOptions.store(parsed)
    var code = ExitCode.success
    for id in parsed.arguments {
        let state = try RedisOptions.calling {
            try store.control(campaign: id, action, reason: reason)
        }
        if let state {
            Terminal.print("\(id): \(state)\n")
        } else {
            Terminal.complain(
                "peal \(action.rawValue): there is no campaign \(id); peal status lists them\n")
            code = ExitCode.found
        }
    }
    return code
}
