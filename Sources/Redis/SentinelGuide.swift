internal import Base
internal import TLS

/// Asks Sentinels where the master is.
///
/// 1. Asks one after the other, each for at most `limit`, until one names a server that can be
///    used; that Sentinel is asked first the next time.
/// 2. Goes on with the next Sentinel when the named server is unusable: a Sentinel that was cut off
///    names the old master.
/// 3. When none helps, tells what each of them said.
struct SentinelGuide {
    /// The longest that name look-up, connection and reply of one Sentinel may take together.
    static let limit = Nanoseconds.seconds(1)

    private(set) var sentinels: [RedisAddress.Endpoint]
    private let master: String
    private let address: RedisAddress

    /// - `address`: must name Sentinels.
    init?(_ address: RedisAddress) {
        guard case .sentinels(let sentinels, let master) = address.place else { return nil }
        self.sentinels = sentinels
        self.master = master
        self.address = address
    }

    /// The first session that a Sentinel leads to.
    mutating func session(_ request: RedisSession.Request) throws(RedisError) -> RedisSession {
        var said: [String] = []
        var tried: Set<RedisAddress.Endpoint> = []
        for (index, sentinel) in sentinels.enumerated() {
            do throws(RedisError) {
                let endpoint = try ask(sentinel, request.context)
                guard tried.insert(endpoint).inserted else {
                    said.append("the Sentinel at \(sentinel) names \(endpoint), too")
                    continue
                }
                let session = try self.session(request, endpoint, of: sentinel)
                sentinels.remove(at: index)
                sentinels.insert(sentinel, at: 0)
                return session
            } catch {
                guard error.isTransient else { throw error }
                said.append(error.description)
            }
        }
        throw RedisError(
            .unreachable,
            "no Sentinel leads to a usable master \(master): \(said.joined(separator: "; ")). "
                + "Check the Sentinels' addresses and the master's name in --redis, and "
                + "SENTINEL MASTER \(master)")
    }

    private func session(
        _ request: RedisSession.Request, _ endpoint: RedisAddress.Endpoint,
        of sentinel: RedisAddress.Endpoint
    ) throws(RedisError) -> RedisSession {
        do throws(RedisError) {
            return try RedisSession(request, with: endpoint)
        } catch {
            guard error.isTransient else { throw error }
            throw RedisError(
                .unreachable, "the Sentinel at \(sentinel) names \(endpoint), but \(error)")
        }
    }

    /// The master's address as one Sentinel knows it.
    private func ask(
        _ sentinel: RedisAddress.Endpoint, _ context: TLSContext?
    ) throws(RedisError) -> RedisAddress.Endpoint {
        let deadline = Instant.now() + SentinelGuide.limit
        let peer = "the Sentinel at \(sentinel)"
        let wire = try RedisWire(to: sentinel, peer: peer, context: context, deadline: deadline)
        let question = ["SENTINEL", "get-master-addr-by-name", master]
        func exchange(_ commands: [[String]]) throws(RedisError) -> RedisReply {
            let replies = try wire.exchange(
                commands.map { $0.map { Array($0.utf8) } }, deadline: deadline)
            for case .error(let text) in replies {
                return .error(text)
            }
            return replies.last ?? .null
        }
        var reply: RedisReply
        if let credentials = address.sentinelCredentials {
            reply = try exchange([credentials.command, question])
        } else {
            reply = try exchange([question])
            // Often Sentinels have the master's password; it is shown to those that want one.
            if case .error(let text) = reply, text.hasPrefix("NOAUTH"),
                let credentials = address.credentials
            {
                reply = try exchange([credentials.command, question])
            }
        }
        switch reply {
        case .array(let parts):
            guard parts.count == 2, let host = parts[0].string, !host.isEmpty,
                let port = parts[1].integer, (1...65_535).contains(port)
            else { throw RedisError(.unreachable, "\(peer) names no address") }
            return RedisAddress.Endpoint(host: host, port: Int(port))
        case .null: throw RedisError(.unreachable, "\(peer) does not know the name \(master)")
        case .error(let text): throw RedisError(.unreachable, "\(peer) answers: \(hint(text))")
        default: throw RedisError(.unreachable, "\(peer) gives no address; is it a Sentinel?")
        }
    }

    private func hint(_ text: String) -> String {
        switch text.prefix(while: { $0 != " " }) {
        case "NOAUTH", "WRONGPASS", "NOPERM":
            "\(text) (its credentials are ?sentinel_user=…&sentinel_password=… of --redis)"
        case "ERR" where text.contains("unknown command"): "\(text) (it is no Sentinel)"
        default: text
        }
    }
}
