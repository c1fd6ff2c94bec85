internal import COpenSSL

/// A certificate and its private key, both in PEM.
package struct IssuedCertificate: Sendable {
    package let certificatePEM: String
    package let keyPEM: String

    /// Writes both files; the key's may be read only by its owner.
    package func write(certificate: String, key: String) throws(CryptoError) {
        try File.write(key, keyPEM, mode: 0o600)
        try File.write(certificate, certificatePEM, mode: 0o644)
    }
}

/// A certificate authority of one process, for tests and the simulator; its key is never written.
///
/// Certificates are valid from an hour ago for ten years.
package final class CertificateAuthority {
    private let key: P256PrivateKey
    private let certificate: Certificate

    package init(name: String = "Peal test authority") throws(CryptoError) {
        key = try P256PrivateKey.generate()
        certificate = try Certificate(subject: name)
        try certificate.setIssuer(certificate)
        try certificate.setKey(key.handle)
        try certificate.add(
            NID_basic_constraints, "critical,CA:TRUE,pathlen:0", issuer: certificate)
        try certificate.add(NID_key_usage, "critical,keyCertSign,cRLSign", issuer: certificate)
        try certificate.add(NID_subject_key_identifier, "hash", issuer: certificate)
        try certificate.sign(key.handle)
    }

    /// The authority's certificate, which clients have to trust.
    package var certificatePEM: String { certificate.pem }

    package func writeCertificate(to path: String) throws(CryptoError) {
        try File.write(path, certificatePEM, mode: 0o644)
    }

    /// A server's certificate for host names and addresses, such as `localhost`, `127.0.0.1`,
    /// `::1`.
    ///
    /// - `usage`: what it may be used for, in OpenSSL's words; `clientAuth` for a client's.
    package func issue(
        names: [String], usage: String = "serverAuth"
    ) throws(CryptoError) -> IssuedCertificate {
        guard let first = names.first else {
            throw CryptoError(.openSSL, "a certificate needs at least one name")
        }
        var alternatives: [String] = []
        for name in names {
            // Nothing that OpenSSL's extension syntax would read as more than one value.
            let plain = name.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x3A, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x2A: true
                default: false
                }
            }
            guard plain, !name.isEmpty else {
                throw CryptoError(.openSSL, "\(name) is neither a host name nor an address")
            }
            alternatives.append((peal_is_address(name) == 1 ? "IP:" : "DNS:") + name)
        }
        let serverKey = try P256PrivateKey.generate()
        let server = try Certificate(subject: first)
        try server.setIssuer(certificate)
        try server.setKey(serverKey.handle)
        try server.add(NID_basic_constraints, "critical,CA:FALSE", issuer: certificate)
        try server.add(NID_key_usage, "critical,digitalSignature", issuer: certificate)
        try server.add(NID_ext_key_usage, usage, issuer: certificate)
        try server.add(NID_subject_key_identifier, "hash", issuer: certificate)
        try server.add(NID_authority_key_identifier, "keyid", issuer: certificate)
        try server.add(
            NID_subject_alt_name, alternatives.joined(separator: ","), issuer: certificate)
        try server.sign(key.handle)
        return IssuedCertificate(certificatePEM: server.pem, keyPEM: serverKey.pem)
    }
}

/// The one owner of an X.509 certificate in the making.
private final class Certificate {
    private let pointer: OpaquePointer
    private static let lifetime = 10 * 365 * 86_400

    init(subject: String) throws(CryptoError) {
        ERR_clear_error()
        guard let pointer = X509_new() else { throw CryptoError.taken("no new certificate") }
        self.pointer = pointer
        let serial = SecureRandom.word() >> 1 | 1
        let filled =
            X509_set_version(pointer, 2) == 1
            && ASN1_INTEGER_set_uint64(X509_get_serialNumber(pointer), serial) == 1
            && X509_gmtime_adj(X509_getm_notBefore(pointer), -3600) != nil
            && X509_gmtime_adj(X509_getm_notAfter(pointer), Certificate.lifetime) != nil
            && X509_NAME_add_entry_by_txt(
                X509_get_subject_name(pointer), "CN", MBSTRING_UTF8, Array(subject.utf8),
                Int32(subject.utf8.count), -1, 0) == 1
        guard filled else { throw CryptoError.taken("no certificate for \(subject)") }
    }

    deinit { X509_free(pointer) }

    func setIssuer(_ issuer: Certificate) throws(CryptoError) {
        try check(
            X509_set_issuer_name(pointer, X509_get_subject_name(issuer.pointer)), "set an issuer")
    }

    func setKey(_ key: KeyHandle) throws(CryptoError) {
        try check(X509_set_pubkey(pointer, key.pointer), "set a public key")
    }

    func add(_ id: Int32, _ value: String, issuer: Certificate) throws(CryptoError) {
        try check(
            peal_add_extension(pointer, issuer.pointer, id, value), "add the extension \(value)")
    }

    func sign(_ key: KeyHandle) throws(CryptoError) {
        ERR_clear_error()
        guard X509_sign(pointer, key.pointer, EVP_sha256()) > 0 else {
            throw CryptoError.taken("cannot sign a certificate")
        }
    }

    var pem: String {
        PEM.writing("write a certificate") { PEM_write_bio_X509($0, pointer) }
    }

    private func check(_ result: Int32, _ action: String) throws(CryptoError) {
        guard result == 1 else { throw CryptoError.taken("cannot \(action)") }
    }
}
