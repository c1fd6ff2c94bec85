internal import Crypto
internal import EventLoop
internal import Glibc

/// The files in a directory that a simulator and its clients need, made where they are missing.
///
/// 1. `ca.pem`, `server.pem`, `server-key.pem`: an authority for clients to trust, and the server's
///    certificate for localhost, 127.0.0.1 and ::1 with its key.
/// 2. `AuthKey_<key id>.p8` and `AuthKey_<key id>.pub.pem`: a provider key for senders and its
/// public half.
package struct TestFiles: Sendable {
    package let authority: String
    package let certificate: String
    package let key: String
    package let providerKey: String
    package let providerPublicKey: String

    /// The key and team of the test provider key where nothing else is said.
    package static let keyID = "PEALTEST01"
    package static let teamID = "PEALTEAM01"

    /// Makes what is missing and says where everything is.
    ///
    /// - Parameters:
    ///   - directory: made too, where it is missing.
    ///   - keyID: the provider key's identifier; it is part of the file's name.
    /// - Returns: the paths of all files.
    /// - Throws: `SystemError` or `CryptoError` for what cannot be made or read.
    package static func prepare(
        in directory: String, keyID: String = TestFiles.keyID
    ) throws -> TestFiles {
        try makeDirectory(directory)
        let files = TestFiles(
            authority: directory + "/ca.pem", certificate: directory + "/server.pem",
            key: directory + "/server-key.pem", providerKey: "\(directory)/AuthKey_\(keyID).p8",
            providerPublicKey: "\(directory)/AuthKey_\(keyID).pub.pem")
        if ![files.authority, files.certificate, files.key].allSatisfy(exists) {
            let authority = try CertificateAuthority(name: "Peal simulator")
            let issued = try authority.issue(names: ["localhost", "127.0.0.1", "::1"])
            try issued.write(certificate: files.certificate, key: files.key)
            try authority.writeCertificate(to: files.authority)
        }
        if !exists(files.providerKey) {
            try P256PrivateKey.generate().write(to: files.providerKey)
        }
        let publicKey = try P256PrivateKey(file: files.providerKey).publicKey
        try publicKey.write(to: files.providerPublicKey)
        return files
    }

    private static func exists(_ path: String) -> Bool { access(path, R_OK) == 0 }

    /// Makes the directory and those above it.
    private static func makeDirectory(_ path: String) throws {
        var made = path.hasPrefix("/") ? "/" : ""
        for part in path.split(separator: "/") {
            made += part
            if mkdir(made, 0o755) != 0, errno != EEXIST {
                throw SystemError("making the directory \(path)")
            }
            made += "/"
        }
        guard access(path, R_OK | X_OK) == 0 else {
            throw SystemError("using the directory \(path)")
        }
    }
}
