internal import Base
internal import TLS

/// An open connection that is signed in at a Redis fit for Peal.
struct RedisSession {
    let wire: RedisWire
    /// Which Redis this is: its run id and replication id.
    let identity: String

    /// How to get one.
    struct Request {
        let address: RedisAddress
        /// The connection's name in `CLIENT LIST`.
        let name: String
        let context: TLSContext?
        let checksRole: Bool
    }

    /// Connects, signs in, and checks the version and that it is a master, within `connectLimit`.
    ///
    /// What a person has to repair is `unsuitable`, what passes by itself is transient.
    init(
        _ request: Request, with endpoint: RedisAddress.Endpoint
    ) throws(RedisError) {
        let deadline = Instant.now() + RedisConnection.connectLimit
        let peer = "Redis at \(endpoint)"
        wire = try RedisWire(
            to: endpoint, peer: peer, context: request.context, deadline: deadline)
        let words = RedisSession.commands(request)
        let replies: [RedisReply]
        do throws(RedisError) {
            replies = try wire.exchange(words.map { $0.map { Array($0.utf8) } }, deadline: deadline)
        } catch {
            guard error.code == .lost, request.context == nil else { throw error }
            throw RedisError(
                .lost, "\(error) while signing in; if that port speaks TLS, write rediss://")
        }
        for (command, reply) in zip(words, replies) {
            guard case .error(let text) = reply else { continue }
            throw RedisSession.failure(text, of: command, peer: peer, request.address)
        }
        let info = replies.suffix(2).map { RedisInfo($0) }
        let (replication, server) = (info[0], info[1])
        identity = "\(server["run_id"] ?? ""):\(replication["master_replid"] ?? "")"
        guard let version = server["redis_version"],
            let major = Int(version.prefix { $0 != "." }), major >= 7
        else {
            throw RedisError(
                .unsuitable,
                "\(peer) is older than 7.0, which Peal needs for its scripts; update it")
        }
        if request.checksRole { try RedisSession.checkRole(replies[replies.count - 3], peer) }
    }

    private static func commands(_ request: Request) -> [[String]] {
        let address = request.address
        var commands: [[String]] = []
        if let credentials = address.credentials { commands.append(credentials.command) }
        if address.database != 0 { commands.append(["SELECT", String(address.database)]) }
        commands.append(["CLIENT", "SETNAME", request.name])
        // The last three, in this order, are read by `init`.
        return commands + [["ROLE"], ["INFO", "replication"], ["INFO", "server"]]
    }

    private static func checkRole(_ reply: RedisReply, _ peer: String) throws(RedisError) {
        let role = (reply.array ?? []).map { $0.string ?? "" }
        switch role.first {
        case "master": return
        case "sentinel":
            throw RedisError(
                .unsuitable,
                "\(peer) is a Sentinel; write redis+sentinel://host:port/master-name")
        default:
            let of = role.count >= 3 ? " of \(role[1]):\(role[2])" : ""
            throw RedisError(
                .unreachable,
                "\(peer) is a replica\(of) and takes no writes; name its master in --redis, or "
                    + "its Sentinels with redis+sentinel://")
        }
    }

    /// What an error reply while signing in means.
    private static func failure(
        _ text: String, of command: [String], peer: String, _ address: RedisAddress
    ) -> RedisError {
        let error = RedisError(.refused, text)
        if error.isTransient { return error }
        switch (error.word, command[0]) {
        case ("NOAUTH", _):
            return RedisError(
                .unsuitable,
                "\(peer) wants a password (\(text)); write it into --redis: "
                    + "redis://user:password@host")
        case ("NOPERM", _):
            let name = command.prefix(command[0] == "CLIENT" ? 2 : 1).joined(separator: " ")
            let rule = name.lowercased().split(separator: " ").joined(separator: "|")
            return RedisError(
                .unsuitable,
                "\(peer) does not let the user \(address.user ?? "default") run \(name); allow it "
                    + "with ACL SETUSER … +\(rule)")
        case (_, "AUTH"):
            return RedisError(
                .unsuitable,
                "\(peer) refuses the user or the password (\(text)); correct them in --redis")
        case (_, "SELECT"):
            return RedisError(
                .unsuitable, "\(peer) refuses database \(address.database) (\(text))")
        default: return RedisError(.unsuitable, "\(peer) refuses \(command[0]): \(text)")
        }
    }
}

extension RedisAddress.Credentials {
    /// The command that signs in.
    var command: [String] { ["AUTH"] + (user.map { [$0] } ?? []) + [password] }
}

/// The answer to INFO: `name:value` in lines.
struct RedisInfo {
    private var values: [Substring: Substring] = [:]

    init(_ reply: RedisReply) {
        for line in (reply.string ?? "").split(whereSeparator: \.isNewline) {
            guard let colon = line.firstIndex(of: ":") else { continue }
            values[line[..<colon]] = line[line.index(after: colon)...]
        }
    }

    subscript(_ name: String) -> String? { values[name[...]].map(String.init) }
}
