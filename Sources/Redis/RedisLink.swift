/// A way to Redis for one thread that may wait: a connection, or in a simulation one that loses
/// replies and keeps its own time.
package protocol RedisLink: AnyObject {
    /// Which Redis this is: its run id and replication id.
    ///
    /// Another one after a reconnect may hold older data.
    var identity: String { get }
    /// Counts connections made.
    var generation: Int { get }

    /// What Redis calls this connection.
    var name: String { get }

    /// Connects if that is needed.
    func connect() throws(RedisError)
    /// Closes it; the next call connects again.
    func close()
    /// Sends all commands at once and returns one reply for each; error replies stand in the list.
    ///
    /// - `limit`: the longest to wait, in nanoseconds.
    func pipeline(
        _ commands: [[[UInt8]]], within limit: Int64
    ) throws(RedisError) -> [RedisReply]
    /// Runs several scripts in one round trip, followed by the commands of `trailer` on the same
    /// connection, with a reply for each.
    func run(
        _ calls: [(script: RedisScript, keys: [[UInt8]], arguments: [[UInt8]])],
        trailer: [[[UInt8]]]
    ) throws(RedisError) -> [RedisReply]
}

extension RedisConnection: RedisLink {}

extension RedisLink {
    /// Runs several scripts in one round trip.
    package func run(
        _ calls: [(script: RedisScript, keys: [[UInt8]], arguments: [[UInt8]])]
    ) throws(RedisError) -> [RedisReply] {
        try run(calls, trailer: [])
    }

    /// Sends one command and returns its reply; an error reply is thrown.
    @discardableResult
    package func command(
        _ arguments: [[UInt8]], within limit: Int64 = RedisConnection.replyLimit
    ) throws(RedisError) -> RedisReply {
        let replies = try pipeline([arguments], within: limit)
        if case .error(let text) = replies[0] {
            // No more than the command and its key: the rest may be a token or a job.
            let words = arguments.prefix(2).map { String(decoding: $0.prefix(200), as: UTF8.self) }
            throw RedisError(reply: text, to: words.joined(separator: " "))
        }
        return replies[0]
    }

    @discardableResult
    package func command(_ arguments: String...) throws(RedisError) -> RedisReply {
        try command(arguments.map { Array($0.utf8) })
    }

    /// Runs a script; loads it first when this connection or Redis does not know it.
    package func run(
        _ script: RedisScript, keys: [[UInt8]], arguments: [[UInt8]]
    ) throws(RedisError) -> RedisReply {
        let replies = try run([(script, keys, arguments)], trailer: [])
        if case .error(let text) = replies[0] {
            throw RedisError(reply: text, to: "the script \(script.name)")
        }
        return replies[0]
    }
}
