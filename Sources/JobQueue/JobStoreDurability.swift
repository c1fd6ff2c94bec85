internal import Redis

extension JobStore {
    /// How long Redis waits for the acknowledgements of its replicas.
    package static let confirmMilliseconds = 1000

    /// Runs scripts and, with `replicas`, has that many replicas acknowledge them.
    ///
    /// Behind the scripts, in the same pipeline and so on the same connection, go a small write and
    /// WAIT. WAIT waits for the last write of its own connection: repeated commits write nothing,
    /// and on a new connection WAIT alone would confirm nothing at all, so the small write is what
    /// it waits for.
    ///
    /// Nothing else needs to be confirmed. A replica applies what its master did in the master's
    /// order: one that has the marks of a commit also has the claim, the plan and the registration
    /// that came before, whoever wrote them. And a worker sends only after a commit that marked.
    func confirmed(
        _ calls: [(script: RedisScript, keys: [[UInt8]], arguments: [[UInt8]])]
    ) throws(RedisError) -> [RedisReply] {
        guard replicas > 0 else { return try redis.run(calls) }
        let mark = (
            script: Scripts.confirm, keys: [bytes(namespace)], arguments: [bytes(redis.name)]
        )
        let wait = ["WAIT", String(replicas), String(JobStore.confirmMilliseconds)]
        var replies = try redis.run(calls + [mark], trailer: [wait.map { bytes($0) }])
        let (waited, marked) = (replies.removeLast(), replies.removeLast())
        if case .integer(let count) = waited, count >= replicas, marked.string == "OK" {
            return replies
        }
        // Too few may mean that a replica was promoted and this is the old master.
        redis.close()
        for case .error(let text) in replies + [marked, waited] {
            let error = RedisError(.refused, text)
            if error.isTransient { throw error }
        }
        if case .error(let text) = marked {
            throw RedisError(reply: text, to: "the script confirm")
        }
        if case .error(let text) = waited {
            let error = RedisError(reply: text, to: "WAIT")
            // One that was demoted after the scripts says ERR to WAIT: they are not confirmed.
            throw error.isRepairable ? error : RedisError(.unconfirmed, error.description)
        }
        throw RedisError(
            .unconfirmed,
            "\(waited.integer ?? 0) of \(replicas) replicas acknowledged a commit within "
                + "\(JobStore.confirmMilliseconds) ms; nothing is sent for it before that. Check "
                + "INFO replication of the master, and --durability")
    }
}
