import Base
import Crypto
import TLS
import TestKit
import Testing

@Suite("TLS in memory")
struct TLSTests {
    /// A server's context with a fresh certificate, and the authority's file.
    struct Fixture {
        let directory: TemporaryDirectory
        let server: TLSContext
        var trust: String { directory.file("ca.pem") }

        init(names: [String]) throws {
            directory = try TemporaryDirectory()
            let authority = try CertificateAuthority()
            try authority.writeCertificate(to: directory.file("ca.pem"))
            let issued = try authority.issue(names: names)
            let certificate = directory.file("server.pem")
            try issued.write(certificate: certificate, key: directory.file("server.key"))
            server = try TLSContext(
                serverCertificate: certificate, key: directory.file("server.key"))
        }

        func pair(name: String) throws -> (client: TLSConnection, server: TLSConnection) {
            let client = try TLSConnection(
                try TLSContext(clientTrusting: trust), serverName: name)
            return (client, try TLSConnection(server, serverName: nil))
        }
    }

    /// Carries bytes to and fro until neither side has any; `chunk` bytes at a time.
    static func exchange(
        _ client: TLSConnection, _ server: TLSConnection, chunk: Int = 1 << 20
    ) throws {
        try client.advance()
        while !client.outgoing.isEmpty || !server.outgoing.isEmpty {
            for (from, to) in [(client, server), (server, client)] {
                while !from.outgoing.isEmpty {
                    let part = Array(from.outgoing.readable.prefix(chunk))
                    from.outgoing.consume(part.count)
                    to.received.append(part)
                    try to.advance()
                }
            }
        }
    }

    static func take(_ queue: ByteQueue) -> [UInt8] {
        defer { queue.removeAll() }
        return Array(queue.readable)
    }

    @Test(
        "both sides agree on HTTP/2 and carry data, however the bytes are cut",
        arguments: [("localhost", 1 << 20), ("127.0.0.1", 1 << 20), ("localhost", 7)])
    func handshake(name: String, chunk: Int) throws {
        let fixture = try Fixture(names: ["localhost", "127.0.0.1"])
        let (client, server) = try fixture.pair(name: name)
        let early = ByteQueue()
        early.append(Array("early".utf8))
        try client.send(early)
        #expect(early.count == 5)
        try Self.exchange(client, server, chunk: chunk)
        #expect(client.isEstablished && server.isEstablished)
        let request = ByteQueue()
        let bytes = (0..<40_000).map { UInt8(truncatingIfNeeded: $0) }
        request.append(bytes)
        try client.send(request)
        #expect(request.isEmpty)
        request.append([1, 2, 3])
        try server.send(request)
        try Self.exchange(client, server, chunk: chunk)
        #expect(Self.take(server.plaintext) == bytes)
        #expect(Self.take(client.plaintext) == [1, 2, 3])
        client.close()
        try Self.exchange(client, server, chunk: chunk)
        #expect(server.peerClosed)
    }

    @Test("a certificate for another name is refused, with that name in the message")
    func wrongName() throws {
        let fixture = try Fixture(names: ["other.example"])
        for name in ["localhost", "127.0.0.1"] {
            let (client, server) = try fixture.pair(name: name)
            let error = #expect(throws: TLSError.self) { try Self.exchange(client, server) }
            #expect(error?.code == .certificate)
            #expect(error?.description.contains(name) == true)
            #expect(!client.isEstablished)
        }
    }

    @Test("a certificate of an authority that is not trusted is refused")
    func untrusted() throws {
        let fixture = try Fixture(names: ["localhost"])
        let other = try Fixture(names: ["localhost"])
        let client = try TLSConnection(
            try TLSContext(clientTrusting: other.trust), serverName: "localhost")
        let server = try TLSConnection(fixture.server, serverName: nil)
        let error = #expect(throws: TLSError.self) { try Self.exchange(client, server) }
        #expect(error?.code == .certificate)
    }

    @Test("a client that does not offer HTTP/2 is refused")
    func noALPN() throws {
        let fixture = try Fixture(names: ["localhost"])
        let server = try TLSConnection(fixture.server, serverName: nil)
        let error = #expect(throws: TLSError.self) {
            server.received.append(Self.helloWithoutALPN)
            try server.advance()
        }
        #expect(error?.code == .handshake)
        // The alert no_application_protocol (RFC 7301 section 3.2) or that of a missing extension.
        #expect(server.outgoing.readable.first == 21)
        #expect(!server.isEstablished)
    }

    @Test("a client offers HTTP/2 by itself, and no protocol where it is told so")
    func offers() throws {
        let fixture = try Fixture(names: ["localhost"])
        for http2 in [true, false] {
            let context = try TLSContext(clientTrusting: fixture.trust, http2: http2)
            let client = try TLSConnection(context, serverName: "localhost")
            try client.advance()
            // The ALPN extension (RFC 7301 section 3.1): its type, then `h2` alone in the list.
            let offer: [UInt8] = [0, 16, 0, 5, 0, 3, 2, 0x68, 0x32]
            let hello = Self.take(client.outgoing)
            let isOffered = hello.indices.contains { hello[$0...].starts(with: offer) }
            #expect(isOffered == http2)
        }
    }

    @Test("a client's certificate without its key is refused with the file's name")
    func identity() throws {
        let fixture = try Fixture(names: ["localhost"])
        let other = try Fixture(names: ["localhost"])
        let certificate = fixture.directory.file("server.pem")
        for key in [other.directory.file("server.key"), fixture.directory.file("missing.key")] {
            let error = #expect(throws: TLSError.self) {
                try TLSContext(
                    clientTrusting: nil, identity: (certificate, key), http2: false)
            }
            #expect(error?.code == .configuration)
            #expect(error?.description.contains(key) == true)
        }
    }

    @Test("bytes that are no TLS end the connection with an error, not a crash")
    func garbage() throws {
        let fixture = try Fixture(names: ["localhost"])
        let (client, server) = try fixture.pair(name: "localhost")
        server.received.append(Array("GET / HTTP/1.1\r\n\r\n".utf8))
        #expect(throws: TLSError.self) { try server.advance() }
        try client.advance()
        client.received.append([UInt8](repeating: 0xFF, count: 100))
        #expect(throws: TLSError.self) { try client.advance() }
    }

    @Test("files that are no certificate or key are refused with their names")
    func files() throws {
        let fixture = try Fixture(names: ["localhost"])
        let bad = try fixture.directory.write("bad.pem", "nothing")
        let trust = #expect(throws: TLSError.self) { try TLSContext(clientTrusting: bad) }
        #expect(trust?.description.contains(bad) == true)
        #expect(throws: TLSError.self) {
            try TLSContext(serverCertificate: bad, key: fixture.directory.file("server.key"))
        }
        #expect(throws: TLSError.self) {
            try TLSContext(serverCertificate: fixture.directory.file("server.pem"), key: bad)
        }
    }

    /// A TLS 1.2 ClientHello with one cipher suite, one group, and ALPN for `http/1.1` only.
    static let helloWithoutALPN: [UInt8] = {
        func sized(_ bytes: [UInt8], _ width: Int) -> [UInt8] {
            let shifts = (0..<width).reversed().map { $0 * 8 }
            return shifts.map { UInt8(truncatingIfNeeded: bytes.count >> $0) } + bytes
        }
        func alternative(_ type: UInt8, _ body: [UInt8]) -> [UInt8] { [0, type] + sized(body, 2) }
        let extensions =
            alternative(10, sized([0, 23], 2)) + alternative(13, sized([4, 3], 2))
            + alternative(11, sized([0], 1))
            + alternative(16, sized(sized(Array("http/1.1".utf8), 1), 2))
        let body =
            [3, 3] + [UInt8](repeating: 7, count: 32) + [0] + sized([0xC0, 0x2B], 2)
            + sized([0], 1) + sized(extensions, 2)
        return [22, 3, 1] + sized([1] + sized(body, 3), 2)
    }()
}
