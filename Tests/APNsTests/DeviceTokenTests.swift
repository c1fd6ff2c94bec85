import APNs
import Testing

@Suite("Device tokens and push types")
struct DeviceTokenTests {
    @Test("several tokens in one entry are none, so that nobody is lost in silence")
    func severalTokens() {
        let token = String(repeating: "ab", count: 32)
        for text in ["\(token) \(token)", "\(token)\n\(token)", "\(token)\r\(token)"] {
            #expect(DeviceToken(text) == nil)
        }
        #expect(DeviceToken(" \(token)\r\n")?.hex == token)
        let groups = Array(repeating: "abababab", count: 8).joined(separator: " ")
        #expect(DeviceToken("<\(groups)>")?.hex == token)
    }

    @Test("hexadecimal text of either case and old spellings give the same bytes")
    func spellings() {
        for text in ["00ffA0", "00FFa0", " 00ffa0\n", "<00ff a0>", "< 00 ff a0 >\r\n"] {
            #expect(DeviceToken(text)?.bytes == [0, 255, 160])
        }
        #expect(DeviceToken("00ffA0")?.hex == "00ffa0")
    }

    @Test("any even number of digits from 2 to 512 is a token")
    func lengths() {
        for digits in [2, 64, 160, 512] {
            #expect(DeviceToken(String(repeating: "a", count: digits))?.bytes.count == digits / 2)
        }
        for digits in [0, 1, 63, 514] {
            #expect(DeviceToken(String(repeating: "a", count: digits)) == nil)
        }
    }

    @Test(
        "other text is no token",
        arguments: ["", " ", "<>", "0g", "g0", "0/", "0:", "0@", "0G", "0`", "é0", "0x00", "00-11"])
    func refused(text: String) { #expect(DeviceToken(text) == nil) }

    @Test("every byte value is decoded as itself")
    func allBytes() {
        let all = (0...255).map { UInt8($0) }
        let text = DeviceToken(bytes: all)?.hex ?? ""
        #expect(DeviceToken(text)?.bytes == all)
        #expect(DeviceToken(text.uppercased())?.bytes == all)
    }

    @Test("the topic gets the suffix of the push type once")
    func topics() {
        #expect(PushType.alert.topic(bundleID: "com.example.app") == "com.example.app")
        #expect(PushType.voip.topic(bundleID: "com.example.app") == "com.example.app.voip")
        #expect(PushType.voip.topic(bundleID: "com.example.app.voip") == "com.example.app.voip")
        #expect(
            PushType.liveactivity.topic(bundleID: "a") == "a.push-type.liveactivity")
        #expect(PushType.voip.payloadLimit == 5120)
        #expect(PushType.alert.payloadLimit == 4096)
        #expect(PushType.background.priorities == [.conservePower])
    }

    @Test("priorities have Apple's numbers and our names")
    func priorities() {
        #expect(Priority(name: "immediate")?.rawValue == 10)
        #expect(Priority(name: "conserve-power")?.rawValue == 5)
        #expect(Priority(name: "lowest")?.rawValue == 1)
        #expect(Priority(name: "high") == nil)
        #expect(Priority(rawValue: 7) == nil)
    }
}
