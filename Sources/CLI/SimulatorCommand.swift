internal import APNsSimulator
internal import EventLoop
internal import Glibc

/// `peal simulator`.
let simulatorCommand = Command(
    name: "simulator", summary: "Runs an APNs server for tests on this machine.",
    options: SimulatorOptions.all,
    details: """
        The simulator speaks HTTP/2 over TLS as APNs does, judges every request by Apple's rules
        and answers with Apple's statuses and reasons. What it needs is made in the directory of
        --cert-dir where it is missing: ca.pem (what clients must trust), server.pem, server-
        key.pem, and a test provider key AuthKey_PEALTEST01.p8 with its public half. One line on
        standard output says that it listens; SIGTERM and SIGINT end it with a line of counts.

        Populations are shares of all device tokens, decided by a hash of the seed and the token,
        so that a run repeats. Tokens of --too-many, --unavailable and --unanswered fail 1 to 3
        times and are then accepted.

        A line of --record is: milliseconds since the epoch with three decimals, connection,
        stream, device token, apns-id, status (0: not answered), and accepted, refused or
        unprocessed: what became of the request, told or not.

        """ + SimulatorScript.help,
    examples: [
        (
            "peal simulator --gone 2% --bad 0.5% --latency 20ms --record requests.log",
            "A strict server on 127.0.0.1:2197 with some dead tokens."
        ),
        (
            "peal simulator --port 0 --port-file port --mode fast",
            "The cheapest server on a free port, which is written to the file."
        ),
        (
            "peal simulator --script deploy/faults.example.json --control 8197",
            "A server that misbehaves by a script, and can be told more while it runs."
        ),
    ]
) { parsed in
    Signals.block([Signals.terminate, Signals.interrupt])
    let configuration = try SimulatorOptions.configuration(parsed)
    let simulator: Simulator
    do {
        simulator = try Simulator(configuration: configuration.simulator)
    } catch {
        throw Failure.unavailable(
            "\(error); choose another --port, --host, --control or --record")
    }
    simulator.start()
    if let port = simulator.controlPort, let path = parsed.optionalText("control-port-file") {
        try SimulatorOptions.writePort(port, to: path, option: "control-port-file")
    }
    if let path = parsed.optionalText("port-file") {
        try SimulatorOptions.writePort(simulator.port, to: path)
    }
    Terminal.print(
        "peal simulator: listening on \(configuration.simulator.host):\(simulator.port) "
            + "(\(configuration.simulator.mode.rawValue)), clients trust "
            + "\(configuration.files.authority)\n"
            + (simulator.controlPort.map { "peal simulator: control on 127.0.0.1:\($0)\n" } ?? ""))
    while Signals.wait(
        for: [Signals.terminate, Signals.interrupt], nanoseconds: 60_000_000_000) == nil
    {}
    simulator.stop()
    Terminal.print("peal simulator: \(simulator.counts.summary)\n")
    if let failure = simulator.recordFailure {
        throw Failure(code: ExitCode.found, "the record is not complete: \(failure)")
    }
    return ExitCode.success
}

/// The options of `peal simulator` and what they mean.
enum SimulatorOptions {
    static let all: [Option] = [
        Option("port", "PORT", default: "2197", "Port to listen on; 0 takes a free one."),
        Option("host", "ADDRESS", default: "127.0.0.1", "Address to listen on."),
        Option("port-file", "FILE", "Gets the port's number once the server listens."),
        Option(
            "cert-dir", "DIR",
            "Directory of certificates and the test provider key, made where missing; "
                + "~/.cache/peal/simulator without it."),
        Option(
            "mode", "strict|fast", default: "strict",
            "strict checks every request; fast answers 200 to all, as cheaply as possible."),
        Option("topic", "ID,…", "Bundle IDs that may be pushed to; any without it."),
        Option(
            "key-id", "ID", default: TestFiles.keyID,
            "Key identifier a provider token must name; any for no check."),
        Option(
            "team-id", "ID", default: TestFiles.teamID,
            "Team identifier a provider token must name; any for no check."),
        Option(
            "public-key", "FILE",
            "PEM file of the public key that provider tokens are verified with; that of the test "
                + "key without it."),
        Option(
            switch: "strict-jwt",
            "Refuses provider tokens in forms that APNs is known to take but JOSE does not allow."),
        Option(
            "jwt-max-age", "TIME", default: "1h",
            "Age at which a provider token is expired."),
        Option("gone", "SHARE", default: "0%", "Device tokens that get 410."),
        Option("bad", "SHARE", default: "0%", "Device tokens that get 400 BadDeviceToken."),
        Option("too-many", "SHARE", default: "0%", "Device tokens that get 429 at first."),
        Option("unavailable", "SHARE", default: "0%", "Device tokens that get 503 at first."),
        Option("unanswered", "SHARE", default: "0%", "Device tokens that get no answer at first."),
        Option("seed", "NUMBER", default: "1", "Another seed chooses other device tokens."),
        Option("latency", "TIME", default: "0", "Time between a request and its answer."),
        Option(
            "rate-limit", "NUMBER", default: "1500",
            "Requests per second and connection, beyond which (and a headroom of 10 %) the answer "
                + "is 429; 0 for no limit."),
        Option("record", "FILE", "Gets one line for each request."),
        Option("script", "FILE", "JSON file of faults and settings; see above."),
        Option(
            "control", "PORT",
            "Port on 127.0.0.1 of the control endpoint, 0 for a free one; none without it."),
        Option("control-port-file", "FILE", "Gets the control endpoint's port."),
        Option("loops", "NUMBER", default: "1", "Threads that share the connections."),
    ]

    static func configuration(
        _ parsed: Parsed
    ) throws -> (simulator: SimulatorConfiguration, files: TestFiles) {
        let keyID = try identifier(parsed, "key-id")
        let files: TestFiles
        do {
            files = try TestFiles.prepare(
                in: try directory(parsed), keyID: keyID ?? TestFiles.keyID)
        } catch {
            throw Failure.configuration("\(error); choose another --cert-dir")
        }
        var configuration = SimulatorConfiguration(
            certificate: files.certificate, key: files.key)
        configuration.host = try parsed.text("host")
        configuration.port = try parsed.integer("port", in: 0...65_535)
        guard let mode = SimulatorConfiguration.Mode(rawValue: try parsed.text("mode")) else {
            throw parsed.wrong("mode", "is no mode", "write strict or fast")
        }
        configuration.mode = mode
        configuration.topics = parsed.texts("topic")
        configuration.providerTokens.keyID = keyID
        configuration.providerTokens.teamID = try identifier(parsed, "team-id")
        configuration.providerTokens.isStrict = try parsed.isOn("strict-jwt")
        configuration.providerTokens.maximumAge =
            try parsed.duration("jwt-max-age", in: 1_000_000_000...3_000_000_000_000_000)
            / 1_000_000_000
        do {
            try configuration.providerTokens.usePublicKey(
                file: parsed.optionalText("public-key") ?? files.providerPublicKey)
        } catch {
            throw Failure.configuration("\(error); check --public-key")
        }
        configuration.population = try population(parsed)
        configuration.latency = try parsed.duration("latency", in: 0...600_000_000_000)
        configuration.rateLimit = try parsed.integer("rate-limit", in: 0...1_000_000)
        configuration.record = parsed.optionalText("record")
        configuration.loops = try parsed.integer("loops", in: 1...64)
        if let path = parsed.optionalText("script") {
            configuration.script = try SimulatorScript.read(path)
        }
        if parsed.optionalText("control") != nil {
            configuration.control = try parsed.integer("control", in: 0...65_535)
        } else if parsed.optionalText("control-port-file") != nil {
            throw parsed.wrong(
                "control-port-file", "has no port to write", "give --control 0 beside it")
        }
        if mode == .fast,
            configuration.record != nil || configuration.script != nil
                || configuration.population.total > 0
        {
            throw parsed.wrong(
                "mode", "looks at no request",
                "leave --record, --script and the shares of device tokens out, or use --mode "
                    + "strict")
        }
        return (configuration, files)
    }

    /// Writes the port as a whole: whoever sees the file reads all of it.
    static func writePort(
        _ port: Int, to path: String, option: String = "port-file"
    ) throws(Failure) {
        let temporary = "\(path).\(getpid())"
        guard let file = fopen(temporary, "w") else {
            throw .configuration("\(SystemError("writing \(path)")); check --\(option)")
        }
        fputs("\(port)\n", file)
        guard fclose(file) == 0, rename(temporary, path) == 0 else {
            throw .configuration("\(SystemError("writing \(path)")); check --\(option)")
        }
    }

    private static func population(_ parsed: Parsed) throws(Failure) -> Population {
        var population = Population()
        population.gone = try parsed.share("gone")
        population.bad = try parsed.share("bad")
        population.tooMany = try parsed.share("too-many")
        population.unavailable = try parsed.share("unavailable")
        population.unanswered = try parsed.share("unanswered")
        population.seed = UInt64(try parsed.integer("seed"))
        guard population.total <= 1 else {
            throw .usage("the shares of device tokens add up to more than 100%; lower them")
        }
        return population
    }

    /// A key or team identifier; nil for `any`.
    private static func identifier(_ parsed: Parsed, _ name: String) throws(Failure) -> String? {
        let text = try parsed.text(name)
        if text == "any" { return nil }
        let isPlain = text.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
            default: false
            }
        }
        guard isPlain, text.utf8.count == 10 else {
            throw parsed.wrong(name, "is no identifier", "give ten letters and digits, or any")
        }
        return text
    }

    private static func directory(_ parsed: Parsed) throws(Failure) -> String {
        if let directory = parsed.optionalText("cert-dir") { return directory }
        guard let home = Terminal.environment()["HOME"], !home.isEmpty else {
            throw .usage("--cert-dir is missing and there is no HOME; give --cert-dir DIR")
        }
        return home + "/.cache/peal/simulator"
    }
}
