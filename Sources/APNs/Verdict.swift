/// What an answer means for one notification.
package enum Verdict: Hashable, Sendable {
    /// APNs took the notification. It is not known to be delivered.
    case accepted
    /// The device token is no longer active for the topic: to the deactivation list.
    case gone
    /// The token was refused, but may be good elsewhere: leave it out until it registers again,
    /// never deactivate it. Many of these stop the campaign (wrong environment or topic).
    case quarantine
    /// This notification can't be sent and the token is not to blame.
    case reject
    /// Not accepted; worth another try.
    case retry(Retry)
    /// The provider token was refused, not the notification: send again on a new connection with
    /// a new provider token. Not charged as a try, but bounded: see `ProviderTokenFault`.
    case providerToken(ProviderTokenFault)
    /// The same would happen to every recipient: pause and tell the operator. The recipient stays
    /// deferred and is sent once the cause is gone.
    case stop(StopCause)

    /// How another try is made.
    package enum Retry: Hashable, Sendable, CaseIterable {
        /// 429 `TooManyRequests`: too many in a row for this token; exponential backoff.
        case tooManyRequests
        /// 5xx: Apple asks for 15 minutes; few tries.
        case serverError
        /// Not processed because of the connection: at once, on another one, without charge but
        /// with a budget of its own.
        case elsewhere
    }

    /// Why a provider token was refused.
    package enum ProviderTokenFault: Hashable, Sendable {
        /// Older than an hour. When it repeats at once with a new token, the clock is wrong:
        /// `StopCause.clock`.
        case expired
        /// Not accepted. Sporadic outbreaks are known, so one new token is tried; the second
        /// refusal is `StopCause.providerToken`.
        case invalid

        /// The cause of the stop when a fresh provider token is refused in the same way.
        package var causeWhenRepeated: StopCause {
            switch self {
            case .expired: .clock
            case .invalid: .providerToken
            }
        }
    }

    /// What the answer of `status` and `reason` means.
    package static func of(status: Int, reason: Reason?) -> Verdict {
        Reaction.of(status: status, reason: reason).verdict
    }
}

/// What an answer means for the notification, its connection and the provider token.
package struct Reaction: Hashable, Sendable {
    package let verdict: Verdict
    package let connection: ConnectionAdvice
    package let minting: Minting

    init(
        _ verdict: Verdict, _ connection: ConnectionAdvice = .keep, _ minting: Minting = .keep
    ) {
        self.verdict = verdict
        self.connection = connection
        self.minting = minting
    }

    /// What to do with the connection that answered.
    package enum ConnectionAdvice: Hashable, Sendable {
        /// Go on with it.
        case keep
        /// Open nothing new on it, read what is still to come, then replace it.
        case drain
        /// Close and replace it at once: it answers nothing else any more.
        case close
    }

    /// What to do about the provider token.
    package enum Minting: Hashable, Sendable {
        /// Go on with the present one.
        case keep
        /// Sign a new one, unless another connection did so since this request was sent.
        case renew
        /// Sign none for 20 minutes: APNs saw too many (Apple, "Establishing a token-based
        /// connection to APNs").
        case hold
    }

    /// The reaction to an answer: by reason first, by status when the reason is absent or new.
    package static func of(status: Int, reason: Reason?) -> Reaction {
        if status == 200 { return Reaction(.accepted) }
        if let known = reason?.known { return known.row.reaction }
        return of(status: status)
    }

    /// The reaction to a status with no reason or with one that Apple added since.
    private static func of(status: Int) -> Reaction {
        switch status {
        case 403: Reaction(.stop(.credentialRefused), .close)
        case 404, 405: Reaction(.stop(.request))
        case 410: Reaction(.gone)
        case 413: Reaction(.stop(.payloadTooLarge))
        case 429: Reaction(.retry(.tooManyRequests))
        case 500: Reaction(.retry(.serverError))
        // From a proxy in between, or from a server that is about to go.
        case 501...599: Reaction(.retry(.serverError), .drain)
        default: Reaction(.reject)
        }
    }
}
