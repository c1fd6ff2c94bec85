internal import Base
package import JSON
package import Redis

/// A Redis, a simulator and as many workers as a test wants, all of its own.
package final class Fleet {
    /// With a cluster, its first master.
    package let redis: RedisServer
    /// Where workers find Redis.
    package let url: String
    private let cluster: SentinelCluster?
    package let simulator: ChildProcess
    package let folder: TemporaryDirectory
    package let port: Int
    /// Between the workers and Redis, where the test asked for it.
    package let proxy: TCPProxy?
    /// Between the workers and the simulator, where the test asked for it.
    package let apnsProxy: TCPProxy?

    /// - `simulator`: options beside port, certificates and record.
    /// - `appendOnly`: Redis keeps its data over a kill.
    /// - `cluster`: takes the place of a Redis of its own.
    /// - `redisOptions`: more options of the Redis.
    /// - `isProxied`: workers reach Redis and the simulator through proxies, the test does not.
    package init(
        simulator options: [String] = [], appendOnly: Bool = false,
        cluster: SentinelCluster? = nil, redisOptions: [String] = [], isProxied: Bool = false
    ) async throws {
        let folder = try TemporaryDirectory()
        self.folder = folder
        // everysec may lose two seconds of confirmed writes when the disk is busy.
        redis =
            try cluster?.servers[0]
            ?? RedisServer(
                appendOnly: appendOnly,
                options: (appendOnly ? ["--appendfsync", "always"] : []) + redisOptions)
        url = cluster?.url ?? redis.url
        self.cluster = cluster
        simulator = try ChildProcess.peal(
            [
                "simulator", "--port", "0", "--port-file", folder.file("port"), "--cert-dir",
                folder.file("certs"), "--record", folder.file("record"), "--strict-jwt",
            ] + options)
        port = try await eventually(value: "the simulator listens") { [folder] in
            Int(folder.text("port").filter(\.isNumber))
        }
        proxy = isProxied ? try TCPProxy(to: redis.port) : nil
        apnsProxy = isProxied ? try TCPProxy(to: port) : nil
        try folder.write("apps.json", Fleet.apps(key: "certs/AuthKey_PEALTEST01.p8"))
    }

    package static func apps(key: String) -> String {
        """
        {"apps": {"shop": {"topic": "com.example.shop", "environment": "production",
        "team_id": "PEALTEAM01", "key_id": "PEALTEST01", "key_file": "\(key)"}}}
        """
    }

    /// Starts a worker; `redis` takes the place of the fleet's own address.
    package func worker(
        _ options: [String] = [], apps: String = "apps.json", authority: String? = nil,
        redis: String? = nil,
        environment: [String: String] = [:]
    ) throws -> ChildProcess {
        let address = redis ?? proxy.map { "redis://127.0.0.1:\($0.port)" } ?? url
        return try ChildProcess.peal(
            [
                "worker", "--redis", address, "--apps", folder.file(apps),
                "--apns-server", "127.0.0.1:\(apnsProxy?.port ?? port)",
                "--apns-ca", authority ?? folder.file("certs/ca.pem"),
            ] + options, environment: environment)
    }

    /// A new connection to the Redis of this moment.
    package func connection() throws -> RedisConnection {
        RedisConnection(try RedisAddress(parsing: url), name: "test")
    }

    /// Runs another command of the program to its end.
    package func peal(
        _ arguments: [String]
    ) async throws -> (end: ChildProcess.End, output: String, errors: String) {
        try await ChildProcess.run(
            try ChildProcess.pealProgram(), arguments, environment: ["PEAL_REDIS": url])
    }

    /// The token of recipient `index` of a campaign.
    ///
    /// Made of few steps, since debug builds are slow and the tests share two threads.
    package static func token(_ campaign: String, _ index: Int) -> String {
        let name = Hex.encode(Array(campaign.utf8.prefix(16)))
        let number = String(index, radix: 16)
        return name + String(repeating: "0", count: 64 - name.count - number.count) + number
    }

    /// Puts `count` tokens into a list and a job for them onto the intake list, as a backend does.
    package func enqueue(
        _ campaign: String, _ count: Int, _ fields: String = "", extra: [String] = []
    ) throws {
        let connection = try connection()
        let tokens = (0..<count).map { Fleet.token(campaign, $0) } + extra
        var start = 0
        while start < tokens.count {
            let part = tokens[start..<min(start + 5000, tokens.count)]
            try connection.command(
                (["RPUSH", "audience:\(campaign)"] + part).map { Array($0.utf8) })
            start += 5000
        }
        try connection.command(
            "LPUSH", "peal:jobs",
            """
            {"id": "\(campaign)", "app": "shop", "payload": {"aps": {"alert": "Hello"}},
            "audience": {"redis_list": "audience:\(campaign)"}
            \(fields.isEmpty ? "" : ", " + fields)}
            """)
    }

    /// The object that `peal status ID --json` prints.
    package func status(_ campaign: String) async throws -> [String: JSONValue] {
        let result = try await peal(["status", campaign, "--json"])
        guard result.end == .exit(0) else { throw TestKitError("peal status: \(result.errors)") }
        return try JSONValue.parse(Array(result.output.utf8)).object ?? [:]
    }

    /// Counters of a campaign, straight from Redis.
    package func counters(_ campaign: String) throws -> [String: Int] {
        let reply = try connection().command("HGETALL", "peal:campaign:\(campaign):stats")
        return reply.fields.compactMapValues { Int($0) }
    }

    package func state(_ campaign: String) throws -> String? {
        try connection().command("HGET", "peal:campaign:\(campaign)", "state").string
    }

    /// What the simulator saw.
    package func record() -> Record { Record(folder.text("record")) }

    /// Waits until the record stands on disk as a whole: it is flushed every 100 ms.
    package func finalRecord() async throws -> Record {
        simulator.send(15)
        try await simulator.wait()
        return record()
    }
}
