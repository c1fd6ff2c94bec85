package import APNs
package import Base

/// One notification on its way to a connection; the token is valid during the call only.
package struct Push {
    package let template: PushTemplate
    /// The device token in binary.
    package let token: UnsafeRawBufferPointer
    /// The two halves of the UUID for `apns-id`.
    package let id: (UInt64, UInt64)
    /// Comes back with the outcome.
    package let tag: UInt64

    package init(
        template: PushTemplate, token: UnsafeRawBufferPointer, id: (UInt64, UInt64), tag: UInt64
    ) {
        self.template = template
        self.token = token
        self.id = id
        self.tag = tag
    }
}

/// What became of a notification; *not processed*, *refused* and *unknown* are never mixed.
package enum PushOutcome {
    /// APNs took it.
    case accepted
    /// APNs answered otherwise.
    case answered(Response, retryAfterSeconds: Int64?)
    /// Proven not processed: never written, stream refused, or above GOAWAY's last stream
    /// (RFC 9113 sections 6.8 and 8.7). Safe to send again under any policy.
    case notProcessed
    /// Written and not answered: timeout, reset, connection lost. It may have been processed.
    case unknown(String)
}

/// Where a pool takes its notifications from and reports their outcomes to.
///
/// Loop only. /// Neither call may start, stop or tick the pool.
package protocol PushSource: AnyObject {
    /// The next notification to send, or nil when there is none now.
    func nextPush(now: Instant) -> Push?
    /// Brings the outcome of what `nextPush` gave, exactly once; `latency` is the time from
    /// sending to it in nanoseconds.
    func pushEnded(tag: UInt64, _ outcome: PushOutcome, latency: Int64, now: Instant)
}

/// The provider token for the connections of one credential, for their loop only.
package protocol CredentialSource: AnyObject {
    /// The token for a connection that is being opened; nil without token authentication.
    func tokenForNewConnection(nowSeconds: Int64) -> ProviderToken?
    /// The token that a connection should change to, or nil to keep what it has.
    func replacement(for held: ProviderToken, changedAt: Int64, nowSeconds: Int64) -> ProviderToken?
    /// APNs refused `token`; the next connection asks for another one.
    ///
    /// False: another one would not help.
    func refused(_ token: ProviderToken, nowSeconds: Int64) -> Bool
    /// APNs saw too many provider tokens: sign none for 20 minutes.
    func hold(nowSeconds: Int64)
}

/// Every limit of a pool and its connections.
package struct PoolSettings: Sendable {
    /// Connections kept open.
    package var connections = 4
    /// Requests in any one second on one connection; nil for no limit.
    package var ratePerConnection: Int? = 1500
    /// Open streams on one connection, whatever the server allows.
    package var streamLimit = 1000
    /// Nanoseconds without an answer after which a request counts as unanswered.
    package var requestTimeout = Nanoseconds.seconds(30)
    /// A connection that is idle for this long gets a PING (nanoseconds).
    package var idlePing = Nanoseconds.seconds(60)
    /// Open streams and silence for this long lead to a PING.
    package var busyPing = Nanoseconds.seconds(15)
    /// A PING that is not answered within this time ends the connection.
    package var pingTimeout = Nanoseconds.seconds(10)
    /// A connection that is being replaced waits this long for its last answers.
    package var drainTimeout = Nanoseconds.seconds(30)
    /// TCP and TLS must be up within this time.
    package var connectTimeout = Nanoseconds.seconds(10)
    /// A connection is replaced at this age, drawn between 0.9 and 1 of it (nanoseconds).
    package var maximumAge = Nanoseconds.seconds(86_400)
    /// Encrypted bytes that may wait for the kernel before a connection sends no more.
    package var backlogLimit = 16 * 1024
    /// Bytes that the kernel may hold unsent, so that a stalled connection can't burst later.
    package var unsentLimit = 32 * 1024
    /// An address that failed is tried last for this long (nanoseconds).
    package var deadAddressTime = Nanoseconds.seconds(60)
    /// A connection that held for this long, or was answered, ends a series of failures.
    package var provenAge = Nanoseconds.seconds(60)
    /// Answers 500 in a row after which a connection is replaced while others are well.
    package var serverErrorsInRow = 3

    /// Settings without a rate limit: a burst does no harm, so more bytes may wait.
    package static var unpaced: PoolSettings {
        var settings = PoolSettings()
        settings.ratePerConnection = nil
        settings.backlogLimit = 256 * 1024
        settings.unsentLimit = 1024 * 1024
        return settings
    }

    package init() {}
}

/// The pause before the next attempt to connect: exponential with full jitter.
///
/// | failures in a row | 1 | 2 | 3 | 4 | 5 | 6 | 7 and more |
/// | --- | --- | --- | --- | --- | --- | --- | --- |
/// | at most (s) | 1 | 2 | 4 | 8 | 16 | 32 | 60 |
package enum ReconnectPolicy {
    package static func limit(failures: Int) -> Int64 {
        failures <= 0 ? 0 : Nanoseconds.seconds(min(60, 1 << min(failures - 1, 6)))
    }

    /// Nanoseconds to wait; `fraction` is random in 0 ..< 1.
    package static func pause(failures: Int, fraction: Double) -> Int64 {
        // At least a tenth, so that many failures never become a hot loop.
        Int64(Double(limit(failures: failures)) * (0.1 + 0.9 * fraction))
    }
}
