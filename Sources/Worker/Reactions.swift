internal import APNs
internal import APNsClient
internal import Base
internal import Campaign
internal import JSON

/// What this worker knows of one campaign while it has shards of it.
///
/// Loop only.
final class CampaignContext {
    let id: String
    let job: Job
    let topic: String
    let environment: String
    let identifier: NotificationID
    var tally = FaultTally()
    /// A pause was asked for; nothing is sent until the campaign is resumed.
    var isPausing = false

    init(job: Job, topic: String, environment: String) {
        id = job.id
        self.job = job
        self.topic = topic
        self.environment = environment
        identifier = NotificationID(campaign: job.id)
    }

    /// A template for the notifications of one claim; a relative expiration counts from now.
    func template(nowMilliseconds: Int64) -> PushTemplate {
        PushTemplate(
            topic: topic, pushType: job.pushType, priority: job.priority.rawValue,
            expiration: job.wireExpiration(now: nowMilliseconds), collapseID: job.collapseID,
            payload: job.payload)
    }

    /// What a run of this campaign needs to know.
    var policy: RunPolicy {
        var policy = RunPolicy()
        policy.resendsUnknown = job.onUnknown == .resend
        policy.deadlineMilliseconds = job.lastMoment
        return policy
    }
}

/// From what became of a request to what that means for the recipient.
enum Reactions {
    /// What to do beside recording the result.
    struct Reaction {
        var result: PushResult
        /// The campaign is to be paused, with this reason.
        var pause: String?
        init(_ result: PushResult, pause: String? = nil) {
            self.result = result
            self.pause = pause
        }
    }

    /// - `tries`: charged tries before this one.
    /// - `isCredentialRefused`: a fresh provider token was refused more than once.
    /// - `random`: in 0 ..< 1, for jitter.
    static func react(
        to outcome: PushOutcome, token: UnsafeRawBufferPointer, tries: Int,
        campaign: CampaignContext, isCredentialRefused: Bool, random: Double,
        nowMilliseconds: Int64
    ) -> Reaction {
        switch outcome {
        case .accepted:
            _ = campaign.tally.note(isTokenFault: false)
            return Reaction(.accepted)
        case .notProcessed: return Reaction(.notProcessed)
        case .unknown(let why):
            let delay = campaign.job.retry.delay(.unknown, tries: 1, random: random) ?? 0
            return Reaction(.unknown(reason: why, delayMilliseconds: delay / 1_000_000))
        case .answered(let response, let retryAfter):
            return react(
                to: response, retryAfter ?? 0, token, tries, campaign, isCredentialRefused, random,
                nowMilliseconds)
        }
    }

    private static func react(
        to response: Response, _ retryAfter: Int64, _ token: UnsafeRawBufferPointer, _ tries: Int,
        _ campaign: CampaignContext, _ isCredentialRefused: Bool, _ random: Double, _ now: Int64
    ) -> Reaction {
        let reason = response.label
        func retry(_ kind: RetryPolicy.Kind) -> PushResult {
            let delay = campaign.job.retry.delay(
                kind, tries: tries + 1, random: random, retryAfter: retryAfter)
            return .retry(reason: reason, delayMilliseconds: delay.map { $0 / 1_000_000 })
        }
        switch response.verdict {
        case .accepted: return Reaction(.accepted)
        case .gone:
            _ = campaign.tally.note(isTokenFault: false)
            return Reaction(.gone(reason: reason, event: event(response, token, campaign, now)))
        case .quarantine:
            let cause: StopCause =
                reason == "DeviceTokenNotForTopic" ? .tokenTopic : .tokenEnvironment
            let opens = campaign.tally.note(isTokenFault: true)
            // With the breaker open the token is not to blame: it is kept for after the pause.
            if campaign.tally.isOpen {
                return Reaction(
                    .held(reason: reason), pause: opens ? "\(reason): \(cause.advice)" : nil)
            }
            return Reaction(
                .quarantined(reason: reason, entry: entry(reason, token, campaign, now)))
        case .reject:
            _ = campaign.tally.note(isTokenFault: false)
            return Reaction(.rejected(reason: reason))
        case .retry(.tooManyRequests): return Reaction(retry(.tooManyRequests))
        case .retry(.serverError): return Reaction(retry(.serverError))
        case .retry(.elsewhere): return Reaction(.notProcessed)
        case .providerToken(let fault):
            // Not processed. The connection is replaced, with a fresh provider token where there is
            // one; when that is refused too, the campaign pauses.
            if isCredentialRefused {
                return Reaction(
                    .held(reason: reason), pause: "\(reason): \(fault.causeWhenRepeated.advice)")
            }
            return Reaction(.retry(reason: reason, delayMilliseconds: 1000))
        case .stop(let cause):
            return Reaction(.held(reason: reason), pause: "\(reason): \(cause.advice)")
        }
    }

    /// The event on the deactivation list (JSON; its fields are part of the contract for backends).
    private static func event(
        _ response: Response, _ token: UnsafeRawBufferPointer, _ campaign: CampaignContext,
        _ now: Int64
    ) -> [UInt8] {
        var event = members(response.label, token, campaign, now)
        event["status"] = .integer(Int64(response.status))
        event["timestamp_ms"] = .integer(response.goneAt?.milliseconds ?? now)
        event["timestamp_source"] = .string((response.goneAt?.source ?? .sentAt).rawValue)
        return JSONValue.object(event).serialized()
    }

    /// The entry on the quarantine list.
    private static func entry(
        _ reason: String, _ token: UnsafeRawBufferPointer, _ campaign: CampaignContext, _ now: Int64
    ) -> [UInt8] {
        JSONValue.object(members(reason, token, campaign, now)).serialized()
    }

    private static func members(
        _ reason: String, _ token: UnsafeRawBufferPointer, _ campaign: CampaignContext, _ now: Int64
    ) -> [String: JSONValue] {
        [
            "token": .string(Hex.encode(token)),
            "app": .string(campaign.job.app),
            "topic": .string(campaign.topic),
            "environment": .string(campaign.environment),
            "reason": .string(reason),
            "campaign": .string(campaign.id),
            "seen_at_ms": .integer(now),
        ]
    }
}
