import APNs
import Base
import Crypto
import Testing

@Suite("Provider token")
struct ProviderTokenTests {
    private let key: P256PrivateKey
    private let credential: ProviderCredential
    private let start: Int64 = 1_796_000_000

    init() throws {
        key = try P256PrivateKey.generate()
        credential = try #require(
            ProviderCredential(key: key, keyID: "ABC123DEFG", teamID: "TEAM123456"))
    }

    @Test("a token has JOSE's three parts and a signature of 64 bytes that holds")
    func form() throws {
        let token = credential.token(issuedAt: start)
        let parts = token.text.split(separator: ".").map(String.init)
        try #require(parts.count == 3)
        let texts = parts.map { Base64URL.decode(Array($0.utf8)) ?? [] }
        #expect(
            String(decoding: texts[0], as: UTF8.self) == #"{"alg":"ES256","kid":"ABC123DEFG"}"#)
        #expect(
            String(decoding: texts[1], as: UTF8.self)
                == #"{"iss":"TEAM123456","iat":1796000000}"#)
        #expect(texts[2].count == 64)
        #expect(key.publicKey.verify(texts[2], of: Array("\(parts[0]).\(parts[1])".utf8)))
        #expect(!token.text.contains("="))
    }

    @Test("identifiers that are not ten letters and digits are refused")
    func identifiers() {
        for bad in ["", "SHORT", "ABC123DEF\"", "ABC123DEFGH", "ÄBC123DEF"] {
            #expect(ProviderCredential(key: key, keyID: bad, teamID: "TEAM123456") == nil)
            #expect(ProviderCredential(key: key, keyID: "ABC123DEFG", teamID: bad) == nil)
        }
    }

    @Test(
        "the refresh table holds",
        arguments: [
            // age, since the last change, a new connection takes it, an open one changes
            (0, 0, true, false), (1799, 1799, true, false), (1800, 1800, false, false),
            (2999, 2999, false, false), (3000, 3000, false, true), (3000, 1199, false, false),
            (3000, 1200, false, true), (-60, 0, true, false), (-360, 1200, false, true),
        ] as [(Int64, Int64, Bool, Bool)])
    func table(age: Int64, sinceChange: Int64, adopts: Bool, changes: Bool) {
        #expect(ProviderTokenPolicy.mayAdopt(age: age) == adopts)
        #expect(ProviderTokenPolicy.shouldChange(age: age, sinceChange: sinceChange) == changes)
    }

    @Test("connections share a token and change it together at 50 minutes")
    func sharing() throws {
        var source = ProviderTokenSource(credential: credential)
        let first = source.tokenForNewConnection(at: start)
        #expect(source.tokenForNewConnection(at: start + 1000) == first)
        #expect(source.replacement(for: first, changedAt: start, at: start + 2999) == nil)
        let change = source.replacement(for: first, changedAt: start, at: start + 3000)
        let second = try #require(change)
        #expect(second.issuedAt == start + 3000)
        #expect(source.replacement(for: first, changedAt: start + 1000, at: start + 3000) == second)
        #expect(source.signatures == 2)
    }

    @Test("over a day, no token gets older than 60 minutes and no two are signed within 20")
    func day() {
        var source = ProviderTokenSource(credential: credential)
        var held = source.tokenForNewConnection(at: start)
        var changedAt = start
        var last = held.issuedAt
        var random = SeededRandom(seed: 1)
        for second in stride(from: start, to: start + 86_400, by: 60) {
            if Int.random(in: 0..<5, using: &random) == 0 {
                let token = source.tokenForNewConnection(at: second)
                #expect(token.age(at: second) < 1800)
            }
            if let token = source.replacement(for: held, changedAt: changedAt, at: second) {
                #expect(second - changedAt >= 1200)
                held = token
                changedAt = second
            }
            #expect(held.age(at: second) < 3600)
            if let current = source.current, current.issuedAt != last {
                #expect(current.issuedAt - last >= 1200)
                last = current.issuedAt
            }
        }
    }

    @Test("a refused token is renewed once, not again within 20 minutes")
    func refusal() throws {
        var source = ProviderTokenSource(credential: credential)
        let first = source.tokenForNewConnection(at: start)
        #expect(source.tokenAfterRefusal(of: first, at: start + 10) == nil)
        let renewed = source.tokenAfterRefusal(of: first, at: start + 1200)
        let second = try #require(renewed)
        #expect(source.tokenAfterRefusal(of: first, at: start + 1210) == second)
        #expect(source.tokenAfterRefusal(of: second, at: start + 1210) == nil)
    }

    @Test("a newer token of another worker is taken over, an older one is not")
    func adoption() {
        var source = ProviderTokenSource(credential: credential)
        let own = source.tokenForNewConnection(at: start)
        source.adopt(ProviderToken(text: "older", issuedAt: start - 60))
        #expect(source.current == own)
        source.adopt(ProviderToken(text: "newer", issuedAt: start + 60))
        #expect(source.tokenForNewConnection(at: start + 70).text == "newer")
    }
}
