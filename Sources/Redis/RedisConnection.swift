internal import Base
internal import TLS

/// A Lua script by the name of its file.
package struct RedisScript: Sendable {
    package let name: String
    package let source: [UInt8]
    package init(name: String, source: [UInt8]) {
        self.name = name
        self.source = source
    }
}

/// A connection to Redis for a thread that may wait: commands in, replies out, each with a
/// deadline.
///
/// 1. Connects on demand, through Sentinels where the address names them (asking them each time),
///    signs in, and refuses a replica and a Redis older than 7.0 (script flags).
/// 2. Sends pipelines and reads as many replies.
/// 3. Loads scripts by need and repeats the call when Redis forgot them (NOSCRIPT).
/// 4. Closes itself on any trouble, so that a late reply can never answer another command, and
///    after replies that say that this Redis is not the master any more; the next call connects
///    again.
///
/// It blocks on purpose: Redis is met a few times a second per shard, on threads beside the send
/// loops, and a sequence of calls stays readable. One thread at a time.
package final class RedisConnection {
    /// The longest that connecting to one Redis may take: name look-up, TLS and signing in.
    package static let connectLimit = Nanoseconds.seconds(2)
    /// The longest an ordinary reply may take.
    package static let replyLimit = Nanoseconds.seconds(5)
    /// How often one call loads scripts that Redis forgot.
    package static let loadLimit = 3

    package let address: RedisAddress
    package let name: String
    /// Counts connections made, so that a caller sees that it was reconnected.
    package private(set) var generation = 0
    /// Which Redis this is: its run id and replication id.
    ///
    /// Another one after a reconnect may hold older data.
    package private(set) var identity = ""
    /// Round trips made since the start.
    package private(set) var roundTrips = 0

    private let checksRole: Bool
    private var wire: RedisWire?
    private var guide: SentinelGuide?
    private var context: TLSContext?
    private var digests: [String: [UInt8]] = [:]

    /// - `name`: shows in `CLIENT LIST`.
    /// - `checksRole`: without it a replica or a Sentinel will do, for looking at it.
    package init(_ address: RedisAddress, name: String = "peal", checksRole: Bool = true) {
        self.address = address
        self.name = name
        self.checksRole = checksRole
        guide = SentinelGuide(address)
    }

    package var isConnected: Bool { wire != nil }

    package func close() { wire = nil }

    /// Connects if that is needed.
    package func connect() throws(RedisError) {
        guard wire == nil else { return }
        do throws(RedisError) {
            let request = RedisSession.Request(
                address: address, name: name, context: try freshContext(),
                checksRole: checksRole)
            let session =
                switch address.place {
                case .server(let endpoint): try RedisSession(request, with: endpoint)
                case .sentinels: try guided(request)
                }
            wire = session.wire
            identity = session.identity
        } catch {
            // At first a wrong password or certificate is a wrong configuration. Later it is
            // trouble that passes when somebody repairs it, and answers are kept until then.
            guard generation > 0, error.code == .unsuitable else { throw error }
            throw RedisError(.unreachable, error.description)
        }
        digests = [:]
        generation += 1
    }

    private func guided(_ request: RedisSession.Request) throws(RedisError) -> RedisSession {
        guard var guide else { preconditionFailure("an address of Sentinels has a guide") }
        defer { self.guide = guide }
        return try guide.session(request)
    }

    /// The files are read at each connect, so that renewed ones are used; while they cannot be
    /// read, those read before stay in use.
    private func freshContext() throws(RedisError) -> TLSContext? {
        guard address.isEncrypted else { return nil }
        let files = address.files
        var identity: (certificate: String, key: String)?
        if let certificate = files.certificate, let key = files.key {
            identity = (certificate, key)
        }
        do throws(TLSError) {
            context = try TLSContext(
                clientTrusting: files.authority, identity: identity, http2: false)
        } catch {
            if context == nil {
                throw RedisError(
                    .unsuitable,
                    "\(error); check --redis-ca, --redis-cert and --redis-key")
            }
        }
        return context
    }

    /// Sends all commands at once and returns one reply for each; error replies stand in the list.
    package func pipeline(
        _ commands: [[[UInt8]]], within limit: Int64 = RedisConnection.replyLimit
    ) throws(RedisError) -> [RedisReply] {
        try connect()
        guard let wire else { preconditionFailure("connect leaves a connection or throws") }
        let replies: [RedisReply]
        do throws(RedisError) {
            roundTrips += 1
            replies = try wire.exchange(commands, deadline: Instant.now() + limit)
        } catch {
            close()
            throw error
        }
        let isMisplaced = replies.contains {
            if case .error(let text) = $0 { RedisError(.refused, text).isMisplaced } else { false }
        }
        if isMisplaced { close() }
        return replies
    }

    /// Runs several scripts in one round trip, followed by the commands of `trailer` on the same
    /// connection, with a reply for each.
    package func run(
        _ calls: [(script: RedisScript, keys: [[UInt8]], arguments: [[UInt8]])],
        trailer: [[[UInt8]]] = []
    ) throws(RedisError) -> [RedisReply] {
        for _ in 0..<RedisConnection.loadLimit {
            try connect()
            for call in calls where digests[call.script.name] == nil { try load(call.script) }
            let commands = calls.map { call in
                [Array("EVALSHA".utf8), digests[call.script.name] ?? []]
                    + [Array(String(call.keys.count).utf8)] + call.keys + call.arguments
            }
            let replies = try pipeline(commands + trailer)
            let forgotten = replies.contains {
                if case .error(let text) = $0 { text.hasPrefix("NOSCRIPT") } else { false }
            }
            guard forgotten else { return replies }
            guard isConnected else {
                // The next connection may reach another Redis, which the caller has to see first.
                throw RedisError(.lost, "Redis forgot its scripts and is not to be written to")
            }
            // Redis was restarted or flushed: none or some ran. Every script of ours is fenced and
            // numbered, so those that ran answer the same again.
            digests = [:]
        }
        // Nobody is to blame but whoever flushes them: it passes.
        throw RedisError(
            .lost, "Redis forgets scripts as soon as they are loaded; who calls SCRIPT FLUSH?")
    }

    private func load(_ script: RedisScript) throws(RedisError) {
        let reply = try command([Array("SCRIPT".utf8), Array("LOAD".utf8), script.source])
        guard let digest = reply.bytes else {
            throw RedisError(.lost, "Redis did not name the script \(script.name)")
        }
        digests[script.name] = digest
    }
}
