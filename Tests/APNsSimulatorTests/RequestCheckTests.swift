import APNsSimulator
import Testing

@Suite("Simulator: what a request must look like")
struct RequestCheckTests {
    private static let token = String(repeating: "0a", count: 32)
    private static let id = "eabeae54-14a8-11e5-b60b-1697f925ec7b"

    /// A correct request with some fields replaced, or dropped where the value is nil.
    private func request(
        _ changes: [String: String?] = [:], body: String = #"{"aps":{"alert":"Hello"}}"#,
        repeating again: String? = nil
    ) -> PushRequest {
        var fields: [(String, String)] = [
            (":method", "POST"), (":scheme", "https"), (":path", "/3/device/\(Self.token)"),
            ("authorization", "bearer a.b.c"), ("apns-id", Self.id),
            ("apns-topic", "com.example.app"), ("apns-push-type", "alert"),
            ("apns-priority", "10"), ("apns-expiration", "1796000000"),
            ("apns-collapse-id", "campaign-42"), ("user-agent", "tests"),
        ]
        for (name, value) in changes {
            fields.removeAll { $0.0 == name }
            if let value { fields.append((name, value)) }
        }
        if let again { fields += fields.filter { $0.0 == again } }
        let memory = fields.flatMap { Array($0.0.utf8) + Array($0.1.utf8) }
        var request = PushRequest(
            memory: memory, body: Array(body.utf8), bodyCount: body.utf8.count)
        var start = 0
        for (name, value) in fields {
            let middle = start + name.utf8.count
            request.note(name: start..<middle, value: middle..<middle + value.utf8.count)
            start = middle + value.utf8.count
        }
        return request
    }

    private func fault(
        _ changes: [String: String?] = [:], body: String = #"{"aps":{"alert":"Hello"}}"#,
        topics: [String] = [], repeating again: String? = nil, authentication: Fault? = nil
    ) -> Fault? {
        RequestCheck(topics: topics).fault(
            in: request(changes, body: body, repeating: again),
            authenticate: { _ in authentication })
    }

    @Test("a correct request has no fault, whether or not it uses the optional fields")
    func correct() {
        #expect(fault() == nil)
        for optional in [
            "apns-id", "apns-priority", "apns-expiration", "apns-collapse-id", "apns-push-type",
        ] {
            #expect(fault([optional: nil]) == nil)
        }
        #expect(fault([":path": "/3/device/0A"]) == nil)
        #expect(fault(body: "{}") == nil)
    }

    @Test(
        "each wrong field has its reason",
        arguments: [
            (":path", "/3/devices/00", .badPath), (":path", "/", .badPath),
            (":path", "/3/device/", .missingDeviceToken),
            (":path", "/3/device", .missingDeviceToken), (":method", "GET", .methodNotAllowed),
            (":path", "/3/device/0", .badDeviceToken), (":path", "/3/device/zz", .badDeviceToken),
            ("apns-id", "1", .badMessageID), ("apns-id", "\(id)0", .badMessageID),
            ("apns-topic", nil, .missingTopic), ("apns-topic", "", .missingTopic),
            ("apns-topic", "com/example", .badTopic), ("apns-push-type", "loud", .invalidPushType),
            ("apns-push-type", "voip", .badTopic), ("apns-push-type", "background", .badPriority),
            ("apns-priority", "7", .badPriority), ("apns-priority", "", .badPriority),
            ("apns-expiration", "soon", .badExpirationDate),
            ("apns-expiration", "-1", .badExpirationDate),
            ("apns-collapse-id", String(repeating: "x", count: 65), .badCollapseID),
        ] as [(String, String?, Fault)])
    func reasons(name: String, value: String?, expected: Fault) {
        #expect(fault([name: value]) == expected)
    }

    @Test("limits are reached exactly: 64 bytes of collapse id, 512 digits, 4096 and 5120 bytes")
    func limits() {
        #expect(fault(["apns-collapse-id": String(repeating: "x", count: 64)]) == nil)
        #expect(fault([":path": "/3/device/" + String(repeating: "0", count: 512)]) == nil)
        #expect(
            fault([":path": "/3/device/" + String(repeating: "0", count: 514)]) == .badDeviceToken)
        func body(_ count: Int) -> String { "{" + String(repeating: " ", count: count - 2) + "}" }
        #expect(fault(body: body(4096)) == nil)
        #expect(fault(body: body(4097)) == .payloadTooLarge)
        let voip = ["apns-push-type": "voip", "apns-topic": "com.example.app.voip"]
        #expect(fault(voip, body: body(5120)) == nil)
        #expect(fault(voip, body: body(5121)) == .payloadTooLarge)
        #expect(fault(body: "") == .payloadEmpty)
        #expect(fault(body: "hello") == .payloadEmpty)
    }

    @Test("only the listed topics are allowed, with the suffix of the push type")
    func topics() {
        let topics = ["com.example.app"]
        #expect(fault(topics: topics) == nil)
        #expect(fault(["apns-topic": "com.example.other"], topics: topics) == .topicDisallowed)
        let live = ["apns-push-type": "liveactivity", "apns-priority": "5"]
        let suffixed = live.merging(["apns-topic": "com.example.app.push-type.liveactivity"]) { $1 }
        #expect(fault(suffixed, topics: topics) == nil)
        #expect(fault(live, topics: topics) == .badTopic)
    }

    @Test("the most global fault wins")
    func order() {
        let all: [String: String?] = [
            ":path": "/3/device/zz", "apns-topic": nil, "apns-id": "1",
        ]
        #expect(
            fault(all.merging([":method": "GET"]) { $1 }, authentication: .expiredProviderToken)
                == .methodNotAllowed)
        #expect(
            fault(all, body: "", repeating: "apns-id", authentication: .expiredProviderToken)
                == .duplicateHeaders)
        #expect(
            fault(all, body: "", authentication: .expiredProviderToken) == .expiredProviderToken)
        #expect(fault(all, body: "") == .badMessageID)
        #expect(fault([":path": "/3/device/zz"], body: "") == .payloadEmpty)
    }
}
