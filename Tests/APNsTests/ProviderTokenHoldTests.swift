import APNs
import Crypto
import Testing

@Suite("Provider token on hold")
struct ProviderTokenHoldTests {
    @Test("after too many tokens none is signed for 20 minutes; the present one goes on")
    func hold() throws {
        let start: Int64 = 1_796_000_000
        let credential = try #require(
            ProviderCredential(
                key: P256PrivateKey.generate(), keyID: "ABC123DEFG", teamID: "TEAM123456"))
        var source = ProviderTokenSource(credential: credential)
        let token = source.tokenForNewConnection(at: start)
        let later = start + 35 * 60
        source.hold(at: later)
        #expect(source.tokenForNewConnection(at: later + 1) == token)
        #expect(source.tokenAfterRefusal(of: token, at: later + 19 * 60) == nil)
        #expect(source.signatures == 1)
        #expect(source.tokenForNewConnection(at: later + 20 * 60) != token)
        #expect(source.signatures == 2)
    }
}
