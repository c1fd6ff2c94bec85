internal import Base
package import Redis

/// One Sentinel on a free port of loopback that watches a master; killed when its owner lets go.
package final class Sentinel: Sendable {
    package let port: Int
    private let directory: TemporaryDirectory
    private let process: ChildProcess

    /// - `quorum`: how many Sentinels must see the master down.
    /// - `settings`: more lines of its configuration.
    package init(
        of name: String = SentinelCluster.name, port master: Int, quorum: Int = 1,
        settings: [String] = []
    ) throws {
        port = try RedisServer.freePort()
        directory = try TemporaryDirectory()
        let isEncrypted = settings.contains { $0.hasPrefix("tls-port") }
        let lines =
            [
                isEncrypted ? "port 0" : "port \(port)", "bind 127.0.0.1", "dir \(directory.path)",
                "sentinel monitor \(name) 127.0.0.1 \(master) \(quorum)",
                "sentinel down-after-milliseconds \(name) 500",
                "sentinel failover-timeout \(name) 2000",
            ] + settings
        // Sentinels write their configuration anew, so each needs a file of its own.
        let file = try directory.write("sentinel.conf", lines.map { $0 + "\n" }.joined())
        let process = try ChildProcess("redis-server", [file, "--sentinel"])
        self.process = process
        try blockUntil("a Sentinel watches on port \(port)") {
            guard process.isRunning else {
                throw TestKitError("the Sentinel ended: \(process.output.suffix(500))")
            }
            return process.output.contains("+monitor master \(name)")
        }
    }

    package var endpoint: RedisAddress.Endpoint { .init(host: "127.0.0.1", port: port) }

    /// Runs one command on a connection of its own; an error reply is thrown.
    @discardableResult
    package func command(_ words: String...) throws -> RedisReply {
        try RedisConnection(
            RedisAddress(host: "127.0.0.1", port: port), name: "test", checksRole: false
        ).command(words.map { Array($0.utf8) })
    }

    /// What it has logged so far.
    package var log: String { process.output }

    package func kill() { process.kill() }
    /// Stops it in its tracks: it is connected to, but does not answer.
    package func freeze() { process.send(19) }
    package func thaw() { process.send(18) }

    /// The port of the master that it names.
    package func masterPort(_ name: String = SentinelCluster.name) throws -> Int? {
        let reply = try command("SENTINEL", "get-master-addr-by-name", name)
        return (reply.array?.last?.integer).map(Int.init)
    }
}

/// A master, replicas and three Sentinels that notice its death after half a second.
package final class SentinelCluster: Sendable {
    /// The name of the master.
    package static let name = "peal-master"

    /// The servers, the first master in front.
    package let servers: [RedisServer]
    package let sentinels: [Sentinel]

    /// Starts all and waits until every Sentinel knows the replicas and the other Sentinels.
    ///
    /// - `isQuick`: Sentinels tell each other and their servers ten times as often as they do in
    ///   real life, where an old master learns after 8 s that it was replaced.
    package init(
        replicas: Int = 1, isQuick: Bool = true, options: [String] = []
    ) async throws {
        // Replicas fetch the data at once, not after 5 s.
        let all = ["--repl-diskless-sync-delay", "0"] + options
        let master = try RedisServer(options: all)
        let others = try (0..<replicas).map { _ in
            try RedisServer(replicaOf: master, options: all)
        }
        servers = [master] + others
        sentinels = try (0..<3).map { _ in
            try Sentinel(
                port: master.port, quorum: 2,
                settings: ["sentinel parallel-syncs \(SentinelCluster.name) 2"])
        }
        for sentinel in sentinels where isQuick {
            try sentinel.command(
                "SENTINEL", "DEBUG", "publish-period", "200", "info-period", "1000")
        }
        try await eventually("the Sentinels know each other and the replicas") {
            try sentinels.allSatisfy { sentinel in
                let facts = try sentinel.command("SENTINEL", "MASTER", SentinelCluster.name).fields
                return facts["num-slaves"] == "\(replicas)" && facts["num-other-sentinels"] == "2"
                    && facts["flags"] == "master"
            }
        }
    }

    /// The URL for Peal.
    package var url: String {
        let hosts = sentinels.map(\.endpoint.description).joined(separator: ",")
        return "redis+sentinel://\(hosts)/\(SentinelCluster.name)"
    }

    package func address() throws -> RedisAddress { try RedisAddress(parsing: url) }

    /// The server that the Sentinels name.
    package func master() throws -> RedisServer {
        guard let port = try sentinels[0].masterPort(),
            let server = servers.first(where: { $0.port == port })
        else { throw TestKitError("the Sentinels name no server of theirs") }
        return server
    }

    /// Has the Sentinels promote a replica while the master lives; the new master.
    @discardableResult
    package func failover() async throws -> RedisServer {
        let old = try master()
        // Refused while a Sentinel has just asked for another one or sees no good replica yet.
        try await eventually("the Sentinels begin a failover") {
            (try? sentinels[0].command("SENTINEL", "FAILOVER", SentinelCluster.name)) != nil
        }
        return try await successor(of: old)
    }

    /// Kills the master (SIGKILL) and waits until there is another one; the new master.
    @discardableResult
    package func killMaster() async throws -> RedisServer {
        let old = try master()
        old.kill()
        return try await successor(of: old)
    }

    private func successor(of old: RedisServer) async throws -> RedisServer {
        try await eventually(value: "the Sentinels name a new master") {
            let ports = try Set(sentinels.map { try $0.masterPort() })
            guard ports.count == 1, let port = ports.first, port != old.port,
                let server = servers.first(where: { $0.port == port }),
                try server.role() == "master"
            else { return nil }
            return server
        }
    }
}
