internal import COpenSSL

/// A private key on the curve P-256, as Apple hands it out in a .p8 file (PKCS#8 in PEM).
package struct P256PrivateKey: Sendable {
    let handle: KeyHandle

    private init(_ handle: KeyHandle) { self.handle = handle }

    /// Reads the text of a PEM file.
    ///
    /// - Parameters:
    ///   - pem: PKCS#8 text, `BEGIN PRIVATE KEY`.
    ///   - source: how the text is called in an error.
    /// - Throws: what is wrong with the text.
    package init(pem: String, source: String = "the key") throws(CryptoError) {
        handle = try PEM.privateKey(Array(pem.utf8), from: source)
    }

    /// Reads a PEM file; the error says what is wrong with it.
    package init(file path: String) throws(CryptoError) {
        handle = try PEM.privateKey(try File.read(path), from: "the file \(path)")
    }

    /// A new random key.
    package static func generate() throws(CryptoError) -> P256PrivateKey {
        ERR_clear_error()
        guard let pointer = peal_generate_p256() else {
            throw CryptoError.taken("no new P-256 key")
        }
        return P256PrivateKey(KeyHandle(owning: pointer))
    }

    /// The key as PKCS#8 in PEM, without a password.
    package var pem: String {
        PEM.writing("write a private key") {
            PEM_write_bio_PKCS8PrivateKey($0, handle.pointer, nil, nil, 0, nil, nil)
        }
    }

    package var publicKey: P256PublicKey { P256PublicKey(handle) }

    /// Writes the key to a file that only its owner may read.
    package func write(to path: String) throws(CryptoError) {
        try File.write(path, pem, mode: 0o600)
    }

    /// The ECDSA signature over the SHA-256 of `bytes`: 64 bytes R‖S (RFC 7518 section 3.4).
    ///
    /// It costs some 30 µs, so that a loop thread may call it now and then.
    package func sign(_ bytes: [UInt8]) -> [UInt8] {
        let failure = "OpenSSL could not sign with a P-256 key"
        guard let pair = ECDSAPair(der: signDER(bytes)) else { preconditionFailure(failure) }
        return pair.joined
    }

    /// The same signature in DER (RFC 3279 section 2.2.3), as OpenSSL's command line writes it.
    package func signDER(_ bytes: [UInt8]) -> [UInt8] {
        ERR_clear_error()
        let context = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(context) }
        var signature = [UInt8](repeating: 0, count: 80)
        var length = signature.count
        guard let context,
            EVP_DigestSignInit(context, nil, EVP_sha256(), nil, handle.pointer) == 1,
            EVP_DigestSign(context, &signature, &length, bytes, bytes.count) == 1
        else { preconditionFailure("OpenSSL could not sign with a P-256 key") }
        return Array(signature.prefix(length))
    }
}

/// A public key on the curve P-256.
package struct P256PublicKey: Sendable {
    let handle: KeyHandle

    init(_ handle: KeyHandle) { self.handle = handle }

    package init(pem: String, source: String = "the key") throws(CryptoError) {
        handle = try PEM.publicKey(Array(pem.utf8), from: source)
    }

    package init(file path: String) throws(CryptoError) {
        handle = try PEM.publicKey(try File.read(path), from: "the file \(path)")
    }

    /// The key as SubjectPublicKeyInfo in PEM (BEGIN PUBLIC KEY).
    package var pem: String {
        PEM.writing("write a public key") { PEM_write_bio_PUBKEY($0, handle.pointer) }
    }

    package func write(to path: String) throws(CryptoError) {
        try File.write(path, pem, mode: 0o644)
    }

    /// Whether `signature`, 64 bytes R‖S, was made over `bytes` with the private key of this one.
    package func verify(_ signature: [UInt8], of bytes: [UInt8]) -> Bool {
        guard let pair = ECDSAPair(joined: signature) else { return false }
        return verify(der: pair.der, of: bytes)
    }

    /// The same for a signature in DER.
    package func verify(der signature: [UInt8], of bytes: [UInt8]) -> Bool {
        ERR_clear_error()
        let context = EVP_MD_CTX_new()
        defer {
            EVP_MD_CTX_free(context)
            ERR_clear_error()
        }
        guard let context,
            EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, handle.pointer) == 1
        else { return false }
        return EVP_DigestVerify(context, signature, signature.count, bytes, bytes.count) == 1
    }
}

/// The two numbers of an ECDSA signature and its two written forms.
private final class ECDSAPair {
    private let pointer: OpaquePointer

    init?(der: [UInt8]) {
        ERR_clear_error()
        let parsed = der.withUnsafeBufferPointer { bytes in
            var cursor = bytes.baseAddress
            return d2i_ECDSA_SIG(nil, &cursor, bytes.count)
        }
        guard let parsed else { return nil }
        pointer = parsed
    }

    init?(joined: [UInt8]) {
        guard joined.count == 64, let pair = ECDSA_SIG_new() else { return nil }
        pointer = pair
        let r = BN_bin2bn(Array(joined.prefix(32)), 32, nil)
        let s = BN_bin2bn(Array(joined.suffix(32)), 32, nil)
        // From here on the pair owns both numbers.
        guard let r, let s, ECDSA_SIG_set0(pair, r, s) == 1 else {
            BN_free(r)
            BN_free(s)
            return nil
        }
    }

    deinit { ECDSA_SIG_free(pointer) }

    /// R‖S, each in 32 bytes.
    var joined: [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 64)
        bytes.withUnsafeMutableBufferPointer { target in
            guard let base = target.baseAddress else { return }
            BN_bn2binpad(ECDSA_SIG_get0_r(pointer), base, 32)
            BN_bn2binpad(ECDSA_SIG_get0_s(pointer), base + 32, 32)
        }
        return bytes
    }

    var der: [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 80)
        let count = bytes.withUnsafeMutableBufferPointer { target in
            var cursor = target.baseAddress
            return i2d_ECDSA_SIG(pointer, &cursor)
        }
        return Array(bytes.prefix(max(0, Int(count))))
    }
}
