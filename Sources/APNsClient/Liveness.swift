internal import Base

/// Decides when a connection is asked for a sign of life and when it is given up.
///
/// | in flight | heard last | sent last or oldest request | PING sent | decision |
/// | --- | --- | --- | --- | --- |
/// | none | 59 s ago | 59 s ago | – | nothing |
/// | none | 60 s ago | 60 s ago | – | PING |
/// | none | 3600 s ago | 10 s ago | – | nothing |
/// | some | 14 s ago | 20 s ago | – | nothing |
/// | some | 15 s ago | 20 s ago | – | PING |
/// | some | 50 s ago | 1 s ago | – | nothing |
/// | any | any | any | 9 s ago | nothing |
/// | any | any | any | 10 s ago | dead |
struct Liveness {
    enum Decision: Equatable { case nothing, ping, dead }

    private(set) var lastReceived: Instant
    var lastSent: Instant
    private(set) var pingSentAt: Instant?

    init(now: Instant) {
        lastReceived = now
        lastSent = now
    }

    /// Decides what to do at `now`; a PING counts as sent.
    ///
    /// `oldest` is when the oldest request in flight was sent, nil when none is.
    mutating func decide(now: Instant, oldest: Instant?, settings: PoolSettings) -> Decision {
        if let pingSentAt {
            return now - pingSentAt >= settings.pingTimeout ? .dead : .nothing
        }
        let quietSince = max(lastReceived, oldest ?? lastSent)
        let allowed = oldest == nil ? settings.idlePing : settings.busyPing
        guard now - quietSince >= allowed else { return .nothing }
        pingSentAt = now
        return .ping
    }

    /// Bytes came from the peer: a sign of life, whether they answer a PING or a request.
    mutating func received(now: Instant) {
        pingSentAt = nil
        lastReceived = now
    }
}
