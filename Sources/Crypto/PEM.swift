internal import COpenSSL

/// The one owner of an OpenSSL key.
///
/// OpenSSL's key objects may be read by several threads at once; nothing here changes one.
final class KeyHandle: @unchecked Sendable {
    let pointer: OpaquePointer

    init(owning pointer: OpaquePointer) { self.pointer = pointer }

    deinit { EVP_PKEY_free(pointer) }

    var isP256: Bool {
        var name = [CChar](repeating: 0, count: 32)
        var length = 0
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard EVP_PKEY_get_group_name(pointer, &name, name.count, &length) == 1 else {
            return false
        }
        let text = name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        return ["prime256v1", "P-256"].contains(String(decoding: text, as: UTF8.self))
    }
}

/// PEM text to OpenSSL's objects and back.
enum PEM {
    /// A password is never asked for: an encrypted key is an error.
    private static let noPassword:
        @convention(c) (
            UnsafeMutablePointer<CChar>?, Int32, Int32, UnsafeMutableRawPointer?
        ) -> Int32 = { _, _, _, _ in -1 }

    static func privateKey(_ text: [UInt8], from source: String) throws(CryptoError) -> KeyHandle {
        let pointer = reading(text) { PEM_read_bio_PrivateKey($0, nil, noPassword, nil) }
        guard let pointer else {
            let content = String(decoding: text, as: UTF8.self)
            if content.contains("ENCRYPTED") {
                throw CryptoError(
                    .notPEM,
                    "\(source) holds an encrypted key: remove its password first "
                        + "(openssl pkcs8 -topk8 -nocrypt)")
            }
            throw CryptoError(
                .notPEM,
                "\(source) is not a PEM private key (BEGIN PRIVATE KEY): "
                    + "use the .p8 file as it was downloaded from Apple")
        }
        return try p256(pointer, from: source)
    }

    static func publicKey(_ text: [UInt8], from source: String) throws(CryptoError) -> KeyHandle {
        guard let pointer = reading(text, { PEM_read_bio_PUBKEY($0, nil, noPassword, nil) }) else {
            throw CryptoError(
                .notPEM,
                "\(source) is not a PEM public key (BEGIN PUBLIC KEY): "
                    + "make one with openssl pkey -pubout")
        }
        return try p256(pointer, from: source)
    }

    private static func p256(
        _ pointer: OpaquePointer, from source: String
    ) throws(CryptoError) -> KeyHandle {
        let key = KeyHandle(owning: pointer)
        guard key.isP256 else {
            throw CryptoError(
                .notP256, "\(source) holds a key that is not on the curve P-256 (prime256v1)")
        }
        return key
    }

    /// What `body` writes, as text.
    static func writing(_ action: String, _ body: (OpaquePointer) -> Int32) -> String {
        ERR_clear_error()
        let bio = BIO_new(BIO_s_mem())
        defer { BIO_free(bio) }
        guard let bio, body(bio) == 1 else { preconditionFailure("OpenSSL could not \(action)") }
        var data: UnsafeMutablePointer<CChar>?
        let count = peal_mem_data(bio, &data)
        let bytes = UnsafeRawBufferPointer(start: data, count: Int(count))
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func reading(
        _ text: [UInt8], _ body: (OpaquePointer) -> OpaquePointer?
    ) -> OpaquePointer? {
        ERR_clear_error()
        defer { ERR_clear_error() }
        return text.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress, bytes.count > 0,
                let bio = BIO_new_mem_buf(base, Int32(bytes.count))
            else { return nil }
            defer { BIO_free(bio) }
            return body(bio)
        }
    }
}
