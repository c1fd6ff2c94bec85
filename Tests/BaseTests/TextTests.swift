import Base
import Testing

@Suite("Hex and base64url")
struct TextTests {
    @Test("hexadecimal text of either case becomes bytes, other text does not")
    func hex() {
        #expect(Hex.decode(Array("00fFa0".utf8)) == [0, 255, 160])
        #expect(Hex.encode([0, 255, 160]) == "00ffa0")
        for bad in ["", "0", "0g", "00 1"] { #expect(Hex.decode(Array(bad.utf8)) == nil) }
    }

    @Test("base64url follows the vectors of RFC 4648 without padding")
    func base64url() {
        let vectors = [
            "": "", "f": "Zg", "fo": "Zm8", "foo": "Zm9v", "foob": "Zm9vYg", "fooba": "Zm9vYmE",
        ]
        for (plain, text) in vectors {
            #expect(Base64URL.encode(Array(plain.utf8)) == text)
            #expect(Base64URL.decode(Array(text.utf8)) == Array(plain.utf8))
        }
        #expect(Base64URL.encode([0xFB, 0xFF]) == "-_8")
        #expect(Base64URL.decode(Array("+/8=".utf8)) == [0xFB, 0xFF])
        #expect(Base64URL.decode(Array("a!".utf8)) == nil)
    }

    @Test("SipHash-2-4 gives the reference value of its paper")
    func sipHash() {
        let hash = SipHash(key0: 0x0706_0504_0302_0100, key1: 0x0F0E_0D0C_0B0A_0908)
        #expect(hash.hash((0..<15).map { UInt8($0) }) == 0xA129_CA61_49BE_45E5)
    }

    @Test("times are written and read as RFC 3339")
    func time() {
        #expect(WallClock.rfc3339(milliseconds: 1_796_000_000_123) == "2026-11-30T00:53:20.123Z")
        #expect(
            WallClock.httpDate(milliseconds: 1_796_000_000_123) == "Mon, 30 Nov 2026 00:53:20 GMT")
        #expect(WallClock.httpDate(milliseconds: 0) == "Thu, 01 Jan 1970 00:00:00 GMT")
        for milliseconds: Int64 in [0, 951_782_400_000, 1_796_000_000_123, 4_102_444_799_999] {
            #expect(
                WallClock.parseRFC3339(WallClock.rfc3339(milliseconds: milliseconds))
                    == milliseconds)
        }
        #expect(WallClock.parseRFC3339("1970-01-01T01:00:00+01:00") == 0)
        #expect(WallClock.parseRFC3339("2026-02-30T00:00:00Z") == nil)
        #expect(WallClock.parseRFC3339("tomorrow") == nil)
    }
}
