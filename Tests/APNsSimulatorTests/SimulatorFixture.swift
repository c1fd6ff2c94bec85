import APNs
import APNsSimulator
import Base
import Crypto
import Foundation
import Testing

/// A simulator in this process on a free port, with a directory of its own, and curl to drive it.
final class SimulatorFixture {
    struct Response: Equatable {
        var status = 0
        var fields: [String: String] = [:]
        var body = ""
    }

    let directory: String
    let files: TestFiles
    let simulator: Simulator
    let credential: ProviderCredential
    var recordPath: String { directory + "/record" }

    init(_ change: (inout SimulatorConfiguration) -> Void = { _ in }) throws {
        directory = NSTemporaryDirectory() + "/peal-simulator-\(UUID().uuidString)"
        files = try TestFiles.prepare(in: directory)
        var configuration = SimulatorConfiguration(
            certificate: files.certificate, key: files.key)
        configuration.record = directory + "/record"
        configuration.providerTokens.keyID = TestFiles.keyID
        configuration.providerTokens.teamID = TestFiles.teamID
        try configuration.providerTokens.usePublicKey(file: files.providerPublicKey)
        configuration.topics = ["com.example.app"]
        change(&configuration)
        credential = try #require(
            ProviderCredential(
                key: try P256PrivateKey(file: files.providerKey), keyID: TestFiles.keyID,
                teamID: TestFiles.teamID))
        simulator = try Simulator(configuration: configuration)
        simulator.start()
    }

    deinit {
        simulator.stop()
        try? FileManager.default.removeItem(atPath: directory)
    }

    func jwt(secondsAgo: Int64 = 0) -> String {
        credential.token(issuedAt: WallClock.milliseconds() / 1000 - secondsAgo).text
    }

    /// The header fields of a correct request; nil drops one.
    func fields(_ changes: [String: String?] = [:]) -> [String] {
        var fields: [String: String] = [
            "authorization": "bearer \(jwt())", "apns-topic": "com.example.app",
            "apns-push-type": "alert", "apns-priority": "10", "apns-expiration": "0",
        ]
        for (name, value) in changes { fields[name] = value }
        return fields.map { "\($0.key): \($0.value)" }
    }

    /// Sends requests one after another on one connection.
    func push(
        _ tokens: [String], fields: [String], body: String = #"{"aps":{"alert":"Hello"}}"#,
        method: String = "POST", path: String = "/3/device/"
    ) throws -> [Response] {
        var arguments = [
            "--silent", "--include", "--http2", "--cacert", files.authority, "--max-time", "20",
            "--request", method, "--data-binary", body,
        ]
        for field in fields { arguments += ["--header", field] }
        arguments += tokens.map { "https://localhost:\(simulator.port)\(path)\($0)" }
        let curl = Process()
        curl.executableURL = URL(fileURLWithPath: "/usr/bin/curl")
        curl.arguments = arguments
        let output = Pipe()
        curl.standardOutput = output
        try curl.run()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        curl.waitUntilExit()
        return SimulatorFixture.responses(String(decoding: data, as: UTF8.self))
    }

    func push(
        _ token: String = "00aa", _ changes: [String: String?] = [:],
        body: String = #"{"aps":{"alert":"Hello"}}"#
    ) throws -> Response {
        try #require(try push([token], fields: fields(changes), body: body).first)
    }

    /// The fields of each line of the record; stops the simulator.
    func record() throws -> [[String]] {
        simulator.stop()
        return try String(contentsOfFile: recordPath, encoding: .utf8).split(separator: "\n")
            .map { $0.split(separator: " ").map(String.init) }
    }

    private static func responses(_ text: String) -> [Response] {
        let plain = text.replacingOccurrences(of: "\r\n", with: "\n")
        return plain.components(separatedBy: "HTTP/2 ").dropFirst().map { part in
            var response = Response()
            let halves = part.components(separatedBy: "\n\n")
            response.body = halves.count > 1 ? halves[1] : ""
            let lines = halves[0].split(separator: "\n")
            response.status = Int(lines.first?.prefix(3) ?? "") ?? 0
            for line in lines.dropFirst() {
                let pair = line.components(separatedBy: ": ")
                response.fields[pair[0]] = pair.dropFirst().joined(separator: ": ")
            }
            return response
        }
    }
}
