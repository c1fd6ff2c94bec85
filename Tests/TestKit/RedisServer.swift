internal import Base
internal import Glibc
package import Redis

/// A redis-server of its own for one test, on a free port of loopback and without snapshots.
///
/// It is killed and its directory removed when its owner lets go of it.
package final class RedisServer: Sendable {
    /// Starts that another process may spoil by taking the free port first.
    private static let attempts = 5

    package let port: Int
    package let directory: TemporaryDirectory
    private let options: [String]
    private let process: Lock<ChildProcess?>

    /// Starts a server and waits until it answers.
    ///
    /// With `appendOnly` a restart finds the data again; `options` are more options of the server,
    /// such as `["--maxmemory", "8mb"]`. With `replicaOf` it starts as a replica of another server
    /// and has its data when it is handed out.
    package init(
        appendOnly: Bool = false, replicaOf master: RedisServer? = nil, options: [String] = []
    ) throws {
        directory = try TemporaryDirectory()
        self.options =
            ["--appendonly", appendOnly ? "yes" : "no"]
            + (master.map { ["--replicaof", "127.0.0.1 \($0.port)"] } ?? []) + options
        var started: (port: Int, process: ChildProcess)?
        var attempt = 1
        while started == nil {
            let port = try RedisServer.freePort()
            do {
                started = (port, try RedisServer.start(port, directory, self.options))
            } catch {
                guard attempt < RedisServer.attempts else { throw error }
                attempt += 1
            }
        }
        port = started?.port ?? 0
        process = Lock(started?.process)
        if master != nil { try waitForMaster() }
    }

    package var address: RedisAddress { RedisAddress(host: "127.0.0.1", port: port) }
    package var url: String { "redis://127.0.0.1:\(port)" }
    /// The process id, or nil while the server is down.
    package var processID: Int32? { process.withLock { $0?.processID } }

    /// A new connection, which connects with its first command.
    package func connection(name: String = "test") -> RedisConnection {
        RedisConnection(address, name: name)
    }

    /// Runs one command on a connection of its own, also on a replica; an error reply is thrown.
    @discardableResult
    package func command(_ words: String...) throws -> RedisReply {
        try RedisConnection(address, name: "test", checksRole: false).command(
            words.map { Array($0.utf8) })
    }

    /// What the server is: `master` or `slave`.
    package func role() throws -> String? { try command("ROLE").array?.first?.string }

    private func waitForMaster() throws {
        try blockUntil("the replica on port \(port) has its master's data") {
            (try command("INFO", "replication").string ?? "").contains("master_link_status:up")
        }
    }

    /// Ends the server at once (SIGKILL).
    package func kill() {
        process.withLock { process in
            process?.kill()
            process = nil
        }
    }

    /// Stops the server in its tracks (SIGSTOP): connections stay open, nothing is answered.
    package func freeze() { process.withLock { $0?.send(SIGSTOP) } }

    /// Lets a frozen server go on (SIGCONT).
    package func thaw() { process.withLock { $0?.send(SIGCONT) } }

    /// Starts the server again on the same port and directory; kills it first where it runs.
    package func restart() throws {
        try process.withLock { process in
            process?.kill()
            process = nil
            process = try RedisServer.start(port, directory, options)
        }
    }

    private static func start(
        _ port: Int, _ directory: TemporaryDirectory, _ options: [String]
    ) throws -> ChildProcess {
        let arguments =
            ["--port", "\(port)", "--bind", "127.0.0.1", "--dir", directory.path, "--save", ""]
        let process = try ChildProcess("redis-server", arguments + options)
        // Another server may have got the port: only the one with our process id counts.
        let mark = "process_id:\(process.processID)"
        let connection = RedisConnection(
            RedisAddress(host: "127.0.0.1", port: port), checksRole: false)
        try blockUntil("redis-server answers on port \(port)") {
            guard process.isRunning else {
                throw TestKitError("redis-server ended: \(process.output.suffix(500))")
            }
            // PING and INFO are answered while the data is still being loaded.
            let info = (try? connection.command("INFO"))?.string ?? ""
            guard info.contains("process_id:"), info.contains("loading:0") else { return false }
            guard info.split(whereSeparator: \.isNewline).contains(where: { $0 == mark })
            else { throw TestKitError("port \(port) is taken") }
            // INFO is answered while the append-only file is read, other commands are not.
            return (try? connection.command("DBSIZE")) != nil
        }
        return process
    }

    /// A port nobody listens on at this moment.
    package static func freePort() throws -> Int {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr = in_addr(s_addr: UInt32(0x7F00_0001).bigEndian)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        guard bound else { throw TestKitError("no free port (error \(errno))") }
        return Int(UInt16(bigEndian: address.sin_port))
    }
}
