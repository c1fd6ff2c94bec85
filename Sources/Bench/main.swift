internal import APNs
internal import Base
internal import Crypto
internal import EventLoop
internal import Glibc
internal import TLS

// The numbers. First scenario: CPU seconds per million notifications on the send path, beside
// h2load with a request of the same shape, against the same nginx, in alternating pairs.

/// An option `--name value` of the command line.
func option(_ name: String, _ standard: Int) -> Int {
    let words = CommandLine.arguments
    guard let place = words.firstIndex(of: "--\(name)"), place + 1 < words.count,
        let number = Int(words[place + 1]), number > 0
    else { return standard }
    return number
}

func fail(_ message: String) -> Never {
    let line = Array("Bench: \(message)\n".utf8)
    _ = Glibc.write(2, line, line.count)
    exit(1)
}

func write(_ text: String, to path: String) {
    guard let file = fopen(path, "w") else { fail("\(path) cannot be written") }
    fputs(text, file)
    fclose(file)
}

/// The middle of the sorted values.
func median(_ values: [Double]) -> Double {
    let sorted = values.sorted()
    return sorted.isEmpty ? 0 : sorted[sorted.count / 2]
}

func rounded(_ value: Double, _ digits: Int = 2) -> String {
    var factor = 1.0
    for _ in 0..<digits { factor *= 10 }
    return String((value * factor).rounded() / factor)
}

if CommandLine.arguments.contains("--help") {
    print(
        """
        Bench: CPU seconds per million notifications beside h2load, against nginx on loopback.
          --requests N     in each run (300000)
          --pairs N        alternating pairs; the median counts (5)
          --connections N  (4)
          --streams N      open streams on each connection (100)
          --payload N      bytes of the body (200)
        Needs nginx and h2load (Debian: nginx-light, nghttp2-client).
        """)
    exit(0)
}

let requests = option("requests", 300_000)
let pairs = option("pairs", 5)
let connections = option("connections", 4)
let streams = option("streams", 100)
let payload = option("payload", 200)

var template = Array("/tmp/peal-bench-XXXXXX".utf8CString)
guard mkdtemp(&template) != nil else { fail("no temporary folder") }
let folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)

/// Whether something listens on a loopback port.
func isListening(_ port: Int) -> Bool {
    guard let address = try? SocketAddress.resolve(host: "127.0.0.1", port: port).first,
        let socket = try? Socket.connect(address)
    else { return false }
    defer { Socket.close(socket) }
    usleep(20_000)
    return Socket.connectionError(socket) == 0
}

/// Starts nginx on a free port; the port and the process.
func startNginx() throws -> (port: Int, process: pid_t) {
    let authority = try CertificateAuthority()
    try authority.writeCertificate(to: "\(folder)/ca.pem")
    try authority.issue(names: ["127.0.0.1", "localhost"]).write(
        certificate: "\(folder)/server.pem", key: "\(folder)/server-key.pem")
    let probe = try EventLoop(name: "probe")
    let listener = try Listener(host: "127.0.0.1", port: 0, loop: probe)
    let port = listener.port
    listener.stop()
    write(
        """
        daemon off; pid \(folder)/nginx.pid; error_log \(folder)/error.log; worker_processes 1;
        events { worker_connections 1024; }
        http { access_log off; client_body_temp_path \(folder)/body; proxy_temp_path \(folder)/p;
        fastcgi_temp_path \(folder)/f; uwsgi_temp_path \(folder)/u; scgi_temp_path \(folder)/s;
        server { listen 127.0.0.1:\(port) ssl http2; ssl_certificate \(folder)/server.pem;
        ssl_certificate_key \(folder)/server-key.pem; http2_max_concurrent_streams 1000;
        keepalive_requests 1000000000; location / { return 200; } } }
        """, to: "\(folder)/nginx.conf")
    guard
        let process = Processes.start([
            "nginx", "-p", folder, "-e", "\(folder)/error.log", "-c", "\(folder)/nginx.conf",
        ])
    else { fail("nginx cannot be started; install nginx-light") }
    for _ in 0..<100 where !isListening(port) { usleep(50_000) }
    return (port, process)
}

let (port, nginx) = try startNginx()
let credential = ProviderCredential(
    key: try P256PrivateKey.generate(), keyID: "BENCHKEY01", teamID: "BENCHTEAM1")
guard let credential else { fail("the identifiers of the bench are wrong") }
let bearer = credential.token(issuedAt: WallClock.milliseconds() / 1000).text
write(String(repeating: "x", count: payload), to: "\(folder)/body.json")
let context = try TLSContext(clientTrusting: "\(folder)/ca.pem")

func ours() throws -> (cpu: Double, wall: Double) {
    let loop = try EventLoop(name: "bench")
    let path = SendPath(loop: loop, count: requests, payloadBytes: payload, credential: credential)
    let result = path.run(port: port, context: context, connections: connections, streams: streams)
    guard result.accepted == requests else {
        fail("only \(result.accepted) of \(requests) notifications were accepted")
    }
    return (result.cpu, result.wall)
}

func h2load() -> Double {
    let token = String(repeating: "0123456789abcdef", count: 4)
    let words = [
        "h2load", "-n", String(requests), "-c", String(connections), "-m", String(streams), "-t",
        "1", "-d", "\(folder)/body.json", "-H", "authorization: bearer \(bearer)", "-H",
        "apns-topic: com.example.shop", "-H", "apns-push-type: alert", "-H", "apns-priority: 10",
        "-H", "apns-expiration: 1900000000", "-H", "apns-collapse-id: bench", "-H",
        "apns-id: 3a67084e-78f3-812d-86c0-b8cc05769aea",
        "https://127.0.0.1:\(port)/3/device/\(token)",
    ]
    guard let child = Processes.start(words), let cpu = Processes.wait(child) else {
        Processes.end(nginx)
        fail("h2load failed; install nghttp2-client")
    }
    return cpu
}

print(
    "Send path beside h2load: \(requests) requests, \(connections) connections, "
        + "\(streams) streams, \(payload) bytes, TLS, nginx; \(pairs) pairs after one warm-up.")
_ = try ours()
_ = h2load()
var ratios: [Double] = []
var own: [Double] = []
var other: [Double] = []
var rates: [Double] = []
for pair in 1...pairs {
    let run = try ours()
    let reference = h2load()
    let million = 1e6 / Double(requests)
    own.append(run.cpu * million)
    other.append(reference * million)
    ratios.append(run.cpu / reference)
    rates.append(Double(requests) / run.wall)
    print(
        "  pair \(pair): Peal \(rounded(run.cpu * million)) CPU-s/M, h2load "
            + "\(rounded(reference * million)) CPU-s/M, ratio \(rounded(run.cpu / reference))")
}
print(
    "median: Peal \(rounded(median(own))) CPU-s/M, h2load \(rounded(median(other))) CPU-s/M, "
        + "ratio \(rounded(median(ratios))) (\(rounded(ratios.min() ?? 0)) to "
        + "\(rounded(ratios.max() ?? 0))), \(Int(median(rates))) notifications/s")
Processes.end(nginx)
for name in ["ca.pem", "server.pem", "server-key.pem", "nginx.conf", "body.json", "error.log"] {
    unlink("\(folder)/\(name)")
}
for name in ["body", "p", "f", "u", "s"] { rmdir("\(folder)/\(name)") }
rmdir(folder)
