internal import COpenSSL

/// What went wrong in TLS: where, OpenSSL's words, and for a refused certificate the reason.
package struct TLSError: Error, CustomStringConvertible, Sendable {
    package enum Code: Sendable, Equatable {
        case configuration, certificate, handshake, broken, closed
    }
    package let code: Code
    package let description: String

    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// Takes OpenSSL's newest error off its queue and empties the queue.
    ///
    /// Of a file that cannot be read the oldest one tells more: the newest names a library.
    static func taken(_ code: Code, _ action: String) -> TLSError {
        var buffer = [CChar](repeating: 0, count: 256)
        let number = code == .configuration ? ERR_peek_error() : ERR_peek_last_error()
        ERR_clear_error()
        guard number != 0 else { return TLSError(code, action) }
        ERR_error_string_n(number, &buffer, buffer.count)
        let text = String(
            decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let reason = text.split(separator: ":").last.map(String.init) ?? text
        return TLSError(code, "\(action): \(reason)")
    }
}

/// Certificates, trust and protocol offer that many connections share.
///
/// TLS 1.2 is the lowest version offered, as APNs asks for ("Sending notification requests to
/// APNs").
package final class TLSContext: @unchecked Sendable {
    let pointer: OpaquePointer
    let isServer: Bool
    /// The protocols of the server in ALPN's wire form; the callback reads it.
    private let protocols: UnsafeMutableBufferPointer<UInt8>

    /// Both sides must agree on HTTP/2 (ALPN `h2`); otherwise no protocol is offered or asked for.
    let requiresHTTP2: Bool

    /// A client that verifies the server's certificate and name.
    ///
    /// - `trust`: a PEM file of trusted roots, or nil for the system's.
    /// - `identity`: PEM files of a certificate chain and its key that the client shows when the
    ///   server asks for one.
    /// - `http2`: offers HTTP/2 alone and refuses a server that does not take it, as APNs needs it;
    ///   without it ALPN is left out, which is what Redis expects.
    package init(
        clientTrusting trust: String?, identity: (certificate: String, key: String)? = nil,
        http2: Bool = true
    ) throws(TLSError) {
        ERR_clear_error()
        guard let context = SSL_CTX_new(TLS_client_method()) else {
            throw TLSError.taken(.configuration, "no TLS client context")
        }
        pointer = context
        isServer = false
        requiresHTTP2 = http2
        protocols = TLSContext.wireForm(["h2"])
        _ = peal_ctx_set_minimum_tls12(context)
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        if let trust {
            guard SSL_CTX_load_verify_locations(context, trust, nil) == 1 else {
                throw TLSError.taken(
                    .configuration, "the file of trusted certificates \(trust) cannot be used")
            }
        } else {
            SSL_CTX_set_default_verify_paths(context)
        }
        if let identity {
            // Without it OpenSSL would ask for the passphrase of an encrypted key on the terminal.
            SSL_CTX_set_default_passwd_cb(context) { _, _, _, _ in 0 }
            try TLSContext.load(identity.certificate, identity.key, into: context)
        }
        guard http2 else { return }
        SSL_CTX_set_alpn_protos(
            context, UnsafePointer(protocols.baseAddress), UInt32(protocols.count))
    }

    /// A server with a certificate chain and key in PEM files; it speaks only HTTP/2.
    ///
    /// - `requiresALPN`: false also takes a client that does not say what it speaks.
    package init(
        serverCertificate: String, key: String, requiresALPN: Bool = true
    ) throws(TLSError) {
        ERR_clear_error()
        guard let context = SSL_CTX_new(TLS_server_method()) else {
            throw TLSError.taken(.configuration, "no TLS server context")
        }
        pointer = context
        isServer = true
        requiresHTTP2 = requiresALPN
        protocols = TLSContext.wireForm(["h2"])
        _ = peal_ctx_set_minimum_tls12(context)
        try TLSContext.load(serverCertificate, key, into: context)
        // A client without ALPN `h2` is refused with the alert no_application_protocol.
        SSL_CTX_set_alpn_select_cb(
            context,
            { _, out, outLength, offered, offeredLength, own in
                guard let own else { return SSL_TLSEXT_ERR_ALERT_FATAL }
                let list = own.assumingMemoryBound(to: UInt8.self)
                var chosen: UnsafeMutablePointer<UInt8>?
                let result = SSL_select_next_proto(
                    &chosen, outLength, list, 3, offered, offeredLength)
                guard result == OPENSSL_NPN_NEGOTIATED, let chosen else {
                    return SSL_TLSEXT_ERR_ALERT_FATAL
                }
                out?.pointee = UnsafePointer(chosen)
                return SSL_TLSEXT_ERR_OK
            }, protocols.baseAddress)
    }

    deinit {
        SSL_CTX_free(pointer)
        protocols.deallocate()
    }

    private static func load(
        _ certificate: String, _ key: String, into context: OpaquePointer
    ) throws(TLSError) {
        guard SSL_CTX_use_certificate_chain_file(context, certificate) == 1 else {
            throw TLSError.taken(.configuration, "the certificate \(certificate) cannot be used")
        }
        guard SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1 else {
            throw TLSError.taken(.configuration, "the private key \(key) cannot be used")
        }
    }

    private static func wireForm(_ names: [String]) -> UnsafeMutableBufferPointer<UInt8> {
        let bytes = names.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }
        let buffer = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: bytes.count)
        _ = buffer.initialize(from: bytes)
        return buffer
    }
}
