import Base
import Crypto
import Foundation
import TestKit
import Testing

@Suite("Keys, digests and certificates")
struct CryptoTests {
    private let temporary: TemporaryDirectory

    init() throws { temporary = try TemporaryDirectory() }

    /// A directory of its own for one test.
    private func directory() -> String { temporary.path }

    @Test("SHA-256 gives the vectors of FIPS 180")
    func digest() {
        #expect(
            Hex.encode(SHA256.hash(Array("abc".utf8)))
                == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        #expect(
            Hex.encode(SHA256.hash([]))
                == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    }

    @Test("a signature holds for its bytes and key only, as R‖S and as DER")
    func signatures() throws {
        let key = try P256PrivateKey.generate()
        let other = try P256PrivateKey.generate()
        let bytes = Array("header.claims".utf8)
        for _ in 0..<50 {
            let signature = key.sign(bytes)
            #expect(signature.count == 64)
            #expect(key.publicKey.verify(signature, of: bytes))
            #expect(!key.publicKey.verify(signature, of: bytes + [0]))
            #expect(!other.publicKey.verify(signature, of: bytes))
            #expect(!key.publicKey.verify(Array(signature.dropLast()), of: bytes))
        }
        #expect(key.publicKey.verify(der: key.signDER(bytes), of: bytes))
        #expect(!key.publicKey.verify(der: key.sign(bytes), of: bytes))
    }

    @Test("keys survive their PEM form, in text and in files")
    func pem() throws {
        let key = try P256PrivateKey.generate()
        let path = directory()
        try key.write(to: path + "/key.p8")
        try key.publicKey.write(to: path + "/key.pub")
        let attributes = try FileManager.default.attributesOfItem(atPath: path + "/key.p8")
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        let again = try P256PrivateKey(file: path + "/key.p8")
        let publicKey = try P256PublicKey(file: path + "/key.pub")
        #expect(publicKey.verify(again.sign([1, 2, 3]), of: [1, 2, 3]))
        #expect(again.pem == key.pem)
        #expect(key.pem.hasPrefix("-----BEGIN PRIVATE KEY-----"))
    }

    @Test("an unusable key file says what is wrong with it")
    func badFiles() throws {
        let path = directory()
        func code(_ text: String?) -> CryptoError.Code? {
            let file = path + "/key.p8"
            try? FileManager.default.removeItem(atPath: file)
            if let text { try? text.write(toFile: file, atomically: true, encoding: .utf8) }
            do throws(CryptoError) {
                _ = try P256PrivateKey(file: file)
                return nil
            } catch {
                #expect(error.description.contains(file))
                return error.code
            }
        }
        let broken = """
            -----BEGIN PRIVATE KEY-----
            MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDBKHrUdjKbRsqZYYgh6
            -----END PRIVATE KEY-----
            """
        #expect(code(nil) == .missing)
        #expect(code("") == .notPEM)
        #expect(code("not a key") == .notPEM)
        #expect(code(broken) == .notPEM)
        #expect(code(try P256PrivateKey.generate().publicKey.pem) == .notPEM)
        #expect(code(String(repeating: "x", count: 70_000)) == .notPEM)
        #expect(throws: CryptoError.self) { _ = try P256PrivateKey(file: path) }
    }

    @Test("a key on another curve is refused for its curve")
    func otherCurve() throws {
        // openssl genpkey -algorithm ED25519, a key made for this test.
        let pem = """
            -----BEGIN PRIVATE KEY-----
            MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
            -----END PRIVATE KEY-----
            """
        do throws(CryptoError) {
            _ = try P256PrivateKey(pem: pem)
            Issue.record("the key was taken")
        } catch {
            #expect(error.code == .notP256)
        }
    }

    @Test("an authority issues certificates for names and addresses, and for nothing else")
    func certificates() throws {
        let authority = try CertificateAuthority()
        let issued = try authority.issue(names: ["localhost", "127.0.0.1", "::1"])
        #expect(issued.certificatePEM.hasPrefix("-----BEGIN CERTIFICATE-----"))
        #expect(issued.keyPEM.contains("PRIVATE KEY"))
        for bad in ["", "a,IP:1.2.3.4", "a b"] {
            #expect(throws: CryptoError.self) { _ = try authority.issue(names: [bad]) }
        }
        #expect(throws: CryptoError.self) { _ = try authority.issue(names: []) }
    }
}
