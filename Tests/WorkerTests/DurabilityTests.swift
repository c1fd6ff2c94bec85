import Testing
import Worker

@Suite("Durability setting")
struct DurabilitySettingTests {
    @Test(
        "none and a number of replicas are read",
        arguments: [
            ("none", Durability.none), ("replicas:1", .replicas(1)), ("replicas:8", .replicas(8)),
        ])
    func good(text: String, durability: Durability) throws {
        #expect(try Durability(parsing: text) == durability)
    }

    @Test(
        "anything else is refused with what to write",
        arguments: ["", "replicas", "replicas:", "replicas:0", "replicas:9", "replicas:x", "all"])
    func bad(text: String) {
        let error = #expect(throws: Durability.Unusable.self) { try Durability(parsing: text) }
        #expect(error?.description.contains("none or replicas:N") == true)
    }

    @Test("the append-only file as a setting is refused with the reason and the alternative")
    func appendOnly() {
        let error = #expect(throws: Durability.Unusable.self) { try Durability(parsing: "aof") }
        #expect(error?.description.contains("WAITAOF") == true)
        #expect(error?.description.contains("replicas:N") == true)
    }
}
