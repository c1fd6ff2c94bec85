import APNs
import JSON
import Testing
import Worker

@Suite("Apps file")
struct AppProfilesTests {
    static let good: [String: JSONValue] = [
        "topic": "com.example.shop", "environment": "sandbox", "team_id": "TEAM123456",
        "key_id": "ABC123DEFG", "key_file": "keys/a.p8",
    ]

    static func file(_ changes: [String: JSONValue?], name: String = "shop") -> [UInt8] {
        var app = good
        for (key, value) in changes { app[key] = value }
        return JSONValue.object(["apps": .object([name: .object(app)])]).serialized()
    }

    static func faults(_ bytes: [UInt8]) -> [String] {
        do {
            _ = try AppProfiles.parse(bytes, file: "a/apps.json")
            return []
        } catch { return error.faults.map(\.description) }
    }

    @Test("an app is read with Apple's host and the key file beside the apps file")
    func read() throws {
        let apps = try AppProfiles.parse(Self.file([:]), file: "/etc/peal/apps.json")
        let app = try #require(apps["shop"])
        #expect(app.keyFile == "/etc/peal/keys/a.p8")
        #expect(app.server == .init(host: "api.sandbox.push.apple.com", port: 443))
        #expect(app.environment == .sandbox)
        #expect(apps.names == ["shop"])
        #expect(apps["other"] == nil)
    }

    @Test("a server is a host with or without a port")
    func servers() {
        #expect(AppProfile.Server("localhost:8443")?.description == "localhost:8443")
        #expect(AppProfile.Server("[::1]:8443") == .init(host: "::1", port: 8443))
        #expect(AppProfile.Server("example.com")?.port == 443)
        for bad in ["", ":1", "a:0", "a:70000", "a:b", "a/b", "[::1", "[::1]8443", "a b"] {
            #expect(AppProfile.Server(bad) == nil)
        }
    }

    @Test(
        "a wrong entry is reported with its path",
        arguments: [
            (["topic": nil], "$.apps.shop.topic is missing"),
            (["topic": ""], "$.apps.shop.topic is empty"),
            (["environment": "prod"], "$.apps.shop.environment is \"prod\""),
            (["environment": nil], "$.apps.shop.environment is missing"),
            (["team_id": "abc"], "$.apps.shop.team_id is \"abc\"; write the 10"),
            (["key_id": 7], "$.apps.shop.key_id is a number"),
            (["key_file": nil], "$.apps.shop.key_file is missing"),
            (["keyfile": "a"], "$.apps.shop.keyfile is not a known field (did you mean"),
            (["server": "a:b"], "$.apps.shop.server is \"a:b\""),
        ] as [([String: JSONValue?], String)])
    func wrong(changes: [String: JSONValue?], words: String) {
        let faults = Self.faults(Self.file(changes))
        #expect(faults.contains { $0.hasPrefix(words) }, "\(faults)")
    }

    @Test("all faults of a file are reported at once")
    func allAtOnce() {
        #expect(Self.faults(Self.file(["topic": nil, "team_id": "x", "port": 1])).count == 3)
        #expect(Self.faults(Self.file([:], name: "a b")).count == 1)
        for text in ["", "[]", "{}", "{\"apps\":{}}", "{\"apps\":{\"a\":1}}", "{\"apps\":1}"] {
            #expect(Self.faults(Array(text.utf8)).count == 1, "\(text)")
        }
    }

    @Test("a file that is not there is one clear line")
    func absent() {
        let error = #expect(throws: AppProfiles.Failure.self) {
            try AppProfiles.read("/nonexistent/apps.json")
        }
        #expect(error?.description.contains("cannot read /nonexistent/apps.json: No such") == true)
    }

    @Test("the example is a good apps file")
    func example() throws {
        let root = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
        let apps = try AppProfiles.read("/\(root)/deploy/apps.example.json")
        #expect(apps.names == ["shop", "shop-debug"])
        #expect(apps["shop-debug"]?.server.port == 2197)
    }
}
