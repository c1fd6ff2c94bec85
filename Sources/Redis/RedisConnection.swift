internal import Base
internal import EventLoop
internal import Glibc

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
/// 1. Connects on demand, signs in, selects the database and checks that Redis is 7.0 or later
///    (script flags).
/// 2. Sends pipelines and reads as many replies.
/// 3. Loads scripts by need and repeats the call when Redis forgot them (NOSCRIPT).
/// 4. Closes itself on any trouble, so that a late reply can never answer another command; the
///    next call connects again.
///
/// It blocks on purpose: Redis is met a few times a second per shard, on threads beside the send
/// loops, and a sequence of calls stays readable. One thread at a time.
package final class RedisConnection {
    /// The longest a connection attempt may take.
    package static let connectLimit = Nanoseconds.seconds(3)
    /// The longest an ordinary reply may take.
    package static let replyLimit = Nanoseconds.seconds(5)

    package let address: RedisAddress
    /// Counts connections made, so that a caller sees that it was reconnected.
    package private(set) var generation = 0
    /// Which Redis this is: its run id and replication id.
    ///
    /// Another one after a reconnect may hold older data.
    package private(set) var identity = ""
    /// Round trips made since the start.
    package private(set) var roundTrips = 0

    private var descriptor: Int32 = -1
    private var reader = ReplyReader()
    private let output = ByteQueue()
    private let input = ByteQueue()
    private var digests: [String: [UInt8]] = [:]
    private let name: String

    package init(_ address: RedisAddress, name: String = "peal") {
        self.address = address
        self.name = name
    }

    deinit { close() }

    package var isConnected: Bool { descriptor >= 0 }

    package func close() {
        if descriptor >= 0 { Socket.close(descriptor) }
        descriptor = -1
        output.removeAll()
        input.removeAll()
    }

    /// Connects if that is needed.
    package func connect() throws(RedisError) {
        guard descriptor < 0 else { return }
        let addresses: [SocketAddress]
        do throws(SystemError) {
            addresses = try SocketAddress.resolve(host: address.host, port: address.port)
        } catch {
            throw RedisError(.unreachable, "Redis at \(address): \(error)")
        }
        var failure = "no address"
        for candidate in addresses {
            do throws(SystemError) {
                try open(candidate)
                break
            } catch {
                failure = error.description
            }
        }
        guard descriptor >= 0 else {
            throw RedisError(.unreachable, "Redis at \(address) cannot be reached (\(failure))")
        }
        reader = ReplyReader()
        digests = [:]
        do throws(RedisError) {
            try signIn()
        } catch {
            close()
            throw error
        }
        generation += 1
    }

    /// Sends all commands at once and returns one reply for each; error replies stand in the list.
    package func pipeline(
        _ commands: [[[UInt8]]], within limit: Int64 = RedisConnection.replyLimit
    ) throws(RedisError) -> [RedisReply] {
        try connect()
        do throws(RedisError) {
            return try exchange(commands, deadline: Instant.now() + limit)
        } catch {
            close()
            throw error
        }
    }

    /// Runs several scripts in one round trip.
    package func run(
        _ calls: [(script: RedisScript, keys: [[UInt8]], arguments: [[UInt8]])]
    ) throws(RedisError) -> [RedisReply] {
        for attempt in 0..<2 {
            try connect()
            for call in calls where digests[call.script.name] == nil { try load(call.script) }
            let commands = calls.map { call in
                [Array("EVALSHA".utf8), digests[call.script.name] ?? []]
                    + [Array(String(call.keys.count).utf8)] + call.keys + call.arguments
            }
            let replies = try pipeline(commands)
            let forgotten = replies.contains {
                if case .error(let text) = $0 { text.hasPrefix("NOSCRIPT") } else { false }
            }
            guard forgotten, attempt == 0 else { return replies }
            // Redis was restarted or flushed: none or some ran. Every script of ours is fenced and
            // numbered, so those that ran answer the same again.
            digests = [:]
        }
        throw RedisError(.refused, "NOSCRIPT Redis forgets scripts as soon as they are loaded")
    }

    private func load(_ script: RedisScript) throws(RedisError) {
        let reply = try command([Array("SCRIPT".utf8), Array("LOAD".utf8), script.source])
        guard let digest = reply.bytes else {
            throw RedisError(.lost, "Redis did not name the script \(script.name)")
        }
        digests[script.name] = digest
    }

    private func open(_ candidate: SocketAddress) throws(SystemError) {
        let socket = try Socket.connect(candidate)
        guard wait(socket, Int16(POLLOUT), until: Instant.now() + RedisConnection.connectLimit)
        else {
            Socket.close(socket)
            throw SystemError("connecting to \(candidate)", number: ETIMEDOUT)
        }
        let number = Socket.connectionError(socket)
        guard number == 0 else {
            Socket.close(socket)
            throw SystemError("connecting to \(candidate)", number: number)
        }
        descriptor = socket
    }

    private func signIn() throws(RedisError) {
        let deadline = Instant.now() + RedisConnection.connectLimit
        var commands: [[[UInt8]]] = []
        if let password = address.password {
            let words = ["AUTH"] + (address.user.map { [$0] } ?? []) + [password]
            commands.append(words.map { Array($0.utf8) })
        }
        if address.database != 0 {
            commands.append(["SELECT", String(address.database)].map { Array($0.utf8) })
        }
        commands.append(["CLIENT", "SETNAME", name].map { Array($0.utf8) })
        commands.append(["INFO", "replication"].map { Array($0.utf8) })
        commands.append(["INFO", "server"].map { Array($0.utf8) })
        let replies = try exchange(commands, deadline: deadline)
        for reply in replies {
            if case .error(let text) = reply { throw RedisError(.refused, text) }
        }
        func field(_ name: String) -> Substring? {
            for reply in replies.suffix(2) {
                let lines = (reply.string ?? "").split(whereSeparator: \.isNewline)
                if let line = lines.first(where: { $0.hasPrefix("\(name):") }) {
                    return line.dropFirst(name.count + 1)
                }
            }
            return nil
        }
        identity = "\(field("run_id") ?? ""):\(field("master_replid") ?? "")"
        guard let major = field("redis_version").flatMap({ Int($0.prefix { $0 != "." }) }),
            major >= 7
        else {
            throw RedisError(
                .unsuitable,
                "Redis at \(address) is older than 7.0, which Peal needs for its scripts")
        }
    }

    private func exchange(
        _ commands: [[[UInt8]]], deadline: Instant
    ) throws(RedisError) -> [RedisReply] {
        for command in commands { encode(command) }
        roundTrips += 1
        var replies: [RedisReply] = []
        replies.reserveCapacity(commands.count)
        do throws(SystemError) {
            while !(try Socket.send(descriptor, from: output)) {
                guard wait(descriptor, Int16(POLLOUT), until: deadline) else {
                    throw SystemError("sending to Redis", number: ETIMEDOUT)
                }
            }
        } catch {
            throw RedisError(.lost, "the connection to Redis at \(address) broke: \(error)")
        }
        while true {
            while replies.count < commands.count, let reply = try reader.next() {
                replies.append(reply)
            }
            guard replies.count < commands.count else { return replies }
            guard wait(descriptor, Int16(POLLIN), until: deadline) else {
                throw RedisError(.lost, "Redis at \(address) did not answer in time")
            }
            do throws(SystemError) {
                guard let count = try Socket.receive(descriptor, into: input, limit: 64 * 1024)
                else { continue }
                guard count > 0 else {
                    throw SystemError("Redis closed the connection", number: ECONNRESET)
                }
            } catch {
                throw RedisError(.lost, "the connection to Redis at \(address) broke: \(error)")
            }
            reader.feed(input.readable)
            input.removeAll()
        }
    }

    private func encode(_ command: [[UInt8]]) {
        output.append(Array("*\(command.count)\r\n".utf8))
        for argument in command {
            output.append(Array("$\(argument.count)\r\n".utf8))
            output.append(argument)
            output.append([13, 10])
        }
    }

    private func wait(_ descriptor: Int32, _ events: Int16, until deadline: Instant) -> Bool {
        while true {
            let left = deadline - Instant.now()
            guard left > 0 else { return false }
            var entry = pollfd(fd: descriptor, events: events, revents: 0)
            let result = poll(&entry, 1, Int32(min((left + 999_999) / 1_000_000, 60_000)))
            if result > 0 { return true }
        }
    }
}
