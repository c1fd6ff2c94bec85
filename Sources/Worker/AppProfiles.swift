package import APNs
internal import Base
package import JSON

/// How to push for one app: an entry of the apps file.
///
/// Keys stay in files of the worker's machine and never pass through Redis.
package struct AppProfile: Equatable, Sendable {
    /// The name that jobs use.
    package let name: String
    /// The bundle id; the push type adds its suffix.
    package let topic: String
    package let environment: PushEnvironment
    /// The team's id in the developer account, 10 characters.
    package let teamID: String
    /// The key's id, 10 characters.
    package let keyID: String
    /// The path of the .p8 file; a relative one in the apps file is seen from that file's folder.
    package let keyFile: String
    /// Where to connect; Apple's host for the environment unless the file names another.
    package let server: Server

    /// The host and port of an APNs server.
    package struct Server: Hashable, Sendable, CustomStringConvertible {
        package let host: String
        package let port: UInt16

        package init(host: String, port: UInt16) {
            self.host = host
            self.port = port
        }

        /// A server from `host` or `host:port`, an IPv6 address in brackets; 443 without a port.
        package init?(_ text: String) {
            var host = Substring(text)
            var port: Substring?
            if text.hasPrefix("[") {
                guard let end = text.firstIndex(of: "]") else { return nil }
                host = text[text.index(after: text.startIndex)..<end]
                let rest = text[text.index(after: end)...]
                guard rest.isEmpty || rest.hasPrefix(":") else { return nil }
                port = rest.isEmpty ? nil : rest.dropFirst()
            } else if let colon = text.firstIndex(of: ":") {
                host = text[..<colon]
                port = text[text.index(after: colon)...]
            }
            let isPlain = host.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != 0x2F }
            guard !host.isEmpty, isPlain, let number = UInt16(port ?? "443"), number > 0 else {
                return nil
            }
            self.init(host: String(host), port: number)
        }

        package var description: String {
            host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        }
    }
}

/// The apps file: every app that jobs may name.
package struct AppProfiles: Equatable, Sendable {
    package let profiles: [String: AppProfile]

    /// Everything that is wrong with an apps file.
    package struct Failure: Error, Equatable, CustomStringConvertible {
        package let file: String
        /// At least one; the path `$` for a file that can't be read.
        package let faults: [JSONFault]

        /// All of them in one line.
        package var description: String {
            "\(file): " + faults.map(\.description).joined(separator: "; ")
        }
    }

    /// The names in alphabetical order.
    package var names: [String] { profiles.keys.sorted() }

    package subscript(name: String) -> AppProfile? { profiles[name] }

    /// Reads an apps file, not the keys that it names.
    package static func read(_ path: String) throws(Failure) -> AppProfiles {
        let bytes: [UInt8]
        do { bytes = try FileReader.read(path) } catch {
            let message = "\(error); name the apps file"
            throw Failure(file: path, faults: [JSONFault(path: "$", message: message)])
        }
        return try parse(bytes, file: path)
    }

    /// Reads the text of an apps file and reports all its faults at once.
    ///
    /// - Parameters:
    ///   - bytes: JSON text.
    ///   - file: The file's path, for messages and for relative key files.
    /// - Returns: The apps by name.
    /// - Throws: All faults.
    package static func parse(_ bytes: [UInt8], file: String) throws(Failure) -> AppProfiles {
        let json: JSONValue
        do { json = try JSONValue.parse(bytes) } catch {
            let message = "is not JSON: \(error); correct the text"
            throw Failure(file: file, faults: [JSONFault(path: "$", message: message)])
        }
        guard let members = json.object else {
            let message = "is \(json.kind); write {\"apps\": {\"name\": {…}}}"
            throw Failure(file: file, faults: [JSONFault(path: "$", message: message)])
        }
        var root = JSONFields(members, path: "$", known: ["apps"])
        if !root.has("apps") { root.missing("apps", "write {\"apps\": {\"name\": {…}}}") }
        let apps = root.object("apps") ?? [:]
        if root.has("apps"), apps.isEmpty, root.faults.isEmpty {
            root.fault("apps", "is empty; describe at least one app")
        }
        var profiles: [String: AppProfile] = [:]
        for name in JSONValue.sorted(apps.keys) {
            guard let app = apps[name] else { continue }
            profiles[name] = profile(name, app, &root, file: file)
        }
        guard root.faults.isEmpty else { throw Failure(file: file, faults: root.faults) }
        return AppProfiles(profiles: profiles)
    }

    private static func profile(
        _ name: String, _ value: JSONValue, _ root: inout JSONFields, file: String
    ) -> AppProfile? {
        var app = JSONFields(
            value.object ?? [:], path: "$.apps\(JSONFields.step(name))",
            known: ["topic", "environment", "team_id", "key_id", "key_file", "server"])
        defer { root.faults += app.faults }
        guard value.object != nil else {
            app.faults.append(
                JSONFault(path: app.path, message: "is \(value.kind); write an object"))
            return nil
        }
        if !JSONFields.isName(name) {
            app.faults.append(
                JSONFault(
                    path: app.path,
                    message: "is no name that a job can give; use 1 to 64 letters, digits, dots, "
                        + "underscores or dashes"))
        }
        let topic = text("topic", "write the app's bundle id", &app)
        if !app.has("environment") { app.missing("environment", "write production or sandbox") }
        let environment = app.choice("environment", PushEnvironment.self)
        let teamID = identifier("team_id", &app)
        let keyID = identifier("key_id", &app)
        let keyFile = text("key_file", "write the path of the .p8 file", &app)
        let server = server(environment, &app)
        guard let topic, let environment, let teamID, let keyID, let keyFile, let server else {
            return nil
        }
        return AppProfile(
            name: name, topic: topic, environment: environment, teamID: teamID, keyID: keyID,
            keyFile: resolved(keyFile, beside: file), server: server)
    }

    private static func text(
        _ key: String, _ advice: String, _ app: inout JSONFields
    ) -> String? {
        guard app.has(key) else {
            app.missing(key, advice)
            return nil
        }
        guard let text = app.string(key) else { return nil }
        guard !text.isEmpty, text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
            app.fault(key, "is empty or has a control character; \(advice)")
            return nil
        }
        return text
    }

    /// A team's or key's id: 10 capital letters and digits in Apple's developer account.
    private static func identifier(_ key: String, _ app: inout JSONFields) -> String? {
        let advice = "write the 10 capital letters and digits from Apple's developer account"
        guard let text = text(key, advice, &app) else { return nil }
        let isPlain = text.utf8.allSatisfy {
            (0x30...0x39).contains($0) || (0x41...0x5A).contains($0)
        }
        guard isPlain, text.utf8.count == 10 else {
            app.fault(key, "is \(app.shown(text)); \(advice)")
            return nil
        }
        return text
    }

    private static func server(
        _ environment: PushEnvironment?, _ app: inout JSONFields
    ) -> AppProfile.Server? {
        guard app.has("server") else {
            return environment.map { AppProfile.Server(host: $0.host, port: 443) }
        }
        guard let text = app.string("server") else { return nil }
        guard let server = AppProfile.Server(text) else {
            app.fault("server", "is \(app.shown(text)); write host:port")
            return nil
        }
        return server
    }

    private static func resolved(_ path: String, beside file: String) -> String {
        guard !path.hasPrefix("/"), let slash = file.lastIndex(of: "/") else { return path }
        return file[...slash] + path
    }
}
