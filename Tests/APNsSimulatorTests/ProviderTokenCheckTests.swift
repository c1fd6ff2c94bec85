import APNs
import APNsSimulator
import Base
import Crypto
import Testing

@Suite("Simulator: provider tokens")
struct ProviderTokenCheckTests {
    private let key: P256PrivateKey
    private let now: Int64 = 1_796_000_000
    private var rules = ProviderTokenCheck.Rules()

    init() throws {
        key = try P256PrivateKey.generate()
        rules.publicKey = key.publicKey
        rules.keyID = "PEALTEST01"
        rules.teamID = "PEALTEAM01"
    }

    private func token(
        header: String = #"{"alg":"ES256","kid":"PEALTEST01"}"#,
        claims: String = #"{"iss":"PEALTEAM01","iat":1796000000}"#, der: Bool = false,
        signedBy other: P256PrivateKey? = nil
    ) -> [UInt8] {
        let parts =
            Base64URL.encode(Array(header.utf8)) + "." + Base64URL.encode(Array(claims.utf8))
        let signer = other ?? key
        let bytes = Array(parts.utf8)
        return bytes + [0x2E]
            + Array(Base64URL.encode(der ? signer.signDER(bytes) : signer.sign(bytes)).utf8)
    }

    private func fault(
        _ token: [UInt8], strict: Bool = false, at now: Int64 = 1_796_000_000
    ) -> Fault? {
        var rules = rules
        rules.isStrict = strict
        var check = ProviderTokenCheck(rules)
        switch check.judge(token, now: now) {
        case .success: return nil
        case .failure(let failure): return failure.fault
        }
    }

    @Test("the sender's own tokens pass the strict rules until they are an hour old")
    func sender() throws {
        let credential = try #require(
            ProviderCredential(key: key, keyID: "PEALTEST01", teamID: "PEALTEAM01"))
        let token = Array(credential.token(issuedAt: now).text.utf8)
        #expect(fault(token, strict: true) == nil)
        #expect(fault(token, strict: true, at: now + 3600) == nil)
        #expect(fault(token, strict: true, at: now + 3601) == .expiredProviderToken)
        #expect(fault(token, strict: true, at: now - 301) == .invalidProviderToken)
    }

    @Test("a wrong algorithm, key, team or signature is invalid")
    func invalid() throws {
        let other = try P256PrivateKey.generate()
        let bad = [
            token(header: #"{"alg":"none","kid":"PEALTEST01"}"#),
            token(header: #"{"alg":"ES256"}"#),
            token(header: #"{"alg":"ES256","kid":"OTHERKEY01"}"#),
            token(claims: #"{"iss":"OTHERTEAM1","iat":1796000000}"#),
            token(claims: #"{"iss":"PEALTEAM01"}"#), token(signedBy: other),
            Array(token().dropLast()), Array("a.b".utf8), Array("..".utf8),
            Array(repeating: 0x61, count: 5000),
        ]
        for token in bad { #expect(fault(token) == .invalidProviderToken) }
    }

    @Test("lax forms that APNs takes pass unless the rules are strict")
    func lax() {
        let lax = [
            token(der: true), token(claims: #"{"iss":"PEALTEAM01","iat":"1796000000"}"#),
            token(claims: #"{"iss":"PEALTEAM01","iat":1796000000000}"#),
            token(claims: #"{"iss":"PEALTEAM01","iat":1796000000,"kid":"x"}"#),
        ]
        for token in lax { #expect(fault(token) == nil) }
        for token in lax.prefix(3) { #expect(fault(token, strict: true) == .invalidProviderToken) }
    }

    @Test("a signature is verified once, however often its token comes")
    func cached() {
        var check = ProviderTokenCheck(rules)
        let token = self.token()
        for _ in 0..<100 { _ = check.judge(token, now: now) }
        #expect(check.verifications == 1)
    }

    @Test("a connection may change its token every 20 minutes, its team and key never")
    func connection() throws {
        var rules = rules
        rules.keyID = nil
        rules.teamID = nil
        var check = ProviderTokenCheck(rules)
        var tokens = ConnectionTokens()
        func fault(_ text: [UInt8]?, _ now: Int64) -> Fault? {
            tokens.fault(
                in: text.map { (Array("Bearer ".utf8) + $0)[...] }, check: &check, now: now)
        }
        func issued(_ time: Int64, team: String = "PEALTEAM01") -> [UInt8] {
            token(claims: #"{"iss":"\#(team)","iat":\#(time)}"#)
        }
        #expect(fault(nil, now) == .missingProviderToken)
        #expect(fault(issued(now - 4000), now) == .expiredProviderToken)
        let first = issued(now)
        #expect(fault(first, now) == nil)
        #expect(fault(issued(now + 10), now + 1199) == .tooManyProviderTokenUpdates)
        #expect(fault(first, now + 1199) == nil)
        #expect(fault(issued(now + 1200), now + 1200) == nil)
        #expect(fault(issued(now + 1200, team: "OTHERTEAM1"), now + 3000) == .invalidProviderToken)
        let otherKey = token(header: #"{"alg":"ES256","kid":"OTHERKEY01"}"#)
        #expect(fault(otherKey, now + 3000) == .unrelatedKeyID)
        let scheme = Array("basic abc".utf8)[...]
        #expect(tokens.fault(in: scheme, check: &check, now: now) == .missingProviderToken)
    }
}
