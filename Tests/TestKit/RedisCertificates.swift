internal import Crypto
package import Redis

/// An authority with certificates for a Redis and for its clients, in a folder of their own.
package final class RedisCertificates: Sendable {
    package let directory: TemporaryDirectory

    /// - `names`: what the server's certificate carries.
    package init(names: [String] = ["localhost", "127.0.0.1"]) throws {
        directory = try TemporaryDirectory()
        let authority = try CertificateAuthority()
        try authority.writeCertificate(to: directory.file("ca.pem"))
        // Servers are clients of each other, too, where replication uses TLS.
        try authority.issue(names: names, usage: "serverAuth,clientAuth").write(
            certificate: directory.file("server.pem"), key: directory.file("server.key"))
        try authority.issue(names: ["peal"], usage: "clientAuth").write(
            certificate: directory.file("client.pem"), key: directory.file("client.key"))
    }

    package var authority: String { directory.file("ca.pem") }

    /// The settings of a server or Sentinel that listens with TLS on `port`.
    package func settings(port: Int, requiresCertificate: Bool = false) -> [(String, String)] {
        [
            ("tls-port", "\(port)"), ("tls-ca-cert-file", authority),
            ("tls-cert-file", directory.file("server.pem")),
            ("tls-key-file", directory.file("server.key")),
            ("tls-auth-clients", requiresCertificate ? "yes" : "no"),
        ]
    }

    /// The files of a client that trusts the authority.
    package func files(withCertificate: Bool = false) -> RedisAddress.Files {
        RedisAddress.Files(
            authority: authority,
            certificate: withCertificate ? directory.file("client.pem") : nil,
            key: withCertificate ? directory.file("client.key") : nil)
    }
}

/// A redis-server that listens with TLS, and without it for the test's own use.
package final class SecureRedis: Sendable {
    package let server: RedisServer
    package let certificates: RedisCertificates
    /// The port with TLS.
    package let port: Int

    /// - `users`: lines of the ACL file, such as `user peal on >secret ~* &* +@all`.
    package init(
        _ certificates: RedisCertificates, requiresCertificate: Bool = false, users: [String] = []
    ) throws {
        self.certificates = certificates
        port = try RedisServer.freePort()
        let settings = certificates.settings(port: port, requiresCertificate: requiresCertificate)
        let lists = try TemporaryDirectory()
        try lists.write("users.acl", users.map { $0 + "\n" }.joined())
        server = try RedisServer(
            options: settings.flatMap { ["--\($0.0)", $0.1] } + [
                "--aclfile", lists.file("users.acl"),
            ])
    }

    /// The address with TLS of `url`, whose `PORT` stands for the port.
    package func address(
        _ url: String = "rediss://localhost:PORT", files: RedisAddress.Files? = nil
    ) throws -> RedisAddress {
        let parts = url.split(separator: "PORT", omittingEmptySubsequences: false)
        var address = try RedisAddress(parsing: parts.joined(separator: "\(port)"))
        address.files = files ?? certificates.files()
        return address
    }
}
