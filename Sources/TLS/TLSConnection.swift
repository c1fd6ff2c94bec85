package import Base
internal import COpenSSL

/// One TLS connection between two byte queues: no socket inside.
///
/// 1. The owner appends what the network delivered to `received` and calls `advance`.
/// 2. Decrypted bytes appear in `plaintext`; the owner consumes them.
/// 3. `send` encrypts; what must go to the network stands in `outgoing`.
///
/// OpenSSL works through a BIO of our own on these queues, so that one large `recv` feeds many
/// records and one `send` carries many. Confined to one thread.
package final class TLSConnection {
    /// Bytes from the network, not yet decrypted.
    package let received = ByteQueue(capacity: 32 * 1024)
    /// Bytes for the network.
    package let outgoing = ByteQueue(capacity: 32 * 1024)
    /// Decrypted bytes for the owner.
    package let plaintext = ByteQueue(capacity: 32 * 1024)

    /// The handshake is complete and both sides agreed on HTTP/2 where the context asks for it.
    package private(set) var isEstablished = false
    /// The peer closed its side in an orderly way.
    package private(set) var peerClosed = false

    private let ssl: OpaquePointer
    private let context: TLSContext
    private let serverName: String?

    /// - `serverName`: the name (or address) that the server's certificate must carry; nil on the
    ///   server's side.
    package init(_ context: TLSContext, serverName: String?) throws(TLSError) {
        ERR_clear_error()
        guard let ssl = SSL_new(context.pointer) else {
            throw TLSError.taken(.configuration, "no TLS connection")
        }
        self.ssl = ssl
        self.context = context
        self.serverName = serverName
        guard let method = QueueBIO.method, let bio = BIO_new(method) else {
            SSL_free(ssl)
            throw TLSError.taken(.configuration, "no TLS input and output")
        }
        BIO_set_data(bio, Unmanaged.passUnretained(self).toOpaque())
        BIO_set_init(bio, 1)
        SSL_set_bio(ssl, bio, bio)
        if context.isServer {
            SSL_set_accept_state(ssl)
        } else {
            SSL_set_connect_state(ssl)
            if let serverName {
                if X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), serverName) != 1 {
                    // Not an address: a host name, sent as SNI and matched with the certificate.
                    ERR_clear_error()
                    _ = peal_ssl_set_host_name(ssl, serverName)
                    _ = SSL_set1_host(ssl, serverName)
                }
            }
        }
    }

    deinit { SSL_free(ssl) }

    /// Goes on with the handshake and decrypts all that was received.
    package func advance() throws(TLSError) {
        if !isEstablished {
            try handshake()
            guard isEstablished else { return }
        }
        while true {
            ERR_clear_error()
            let space = plaintext.reserve(16 * 1024)
            let count = SSL_read(ssl, space.baseAddress, Int32(min(space.count, 1 << 20)))
            if count > 0 {
                plaintext.commit(Int(count))
                continue
            }
            switch SSL_get_error(ssl, count) {
            case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return
            case SSL_ERROR_ZERO_RETURN:
                peerClosed = true
                return
            default: throw TLSError.taken(.broken, "TLS connection broken")
            }
        }
    }

    /// Encrypts all of `bytes` (and empties the queue) once the handshake is complete.
    package func send(_ bytes: ByteQueue) throws(TLSError) {
        guard isEstablished else { return }
        while !bytes.isEmpty {
            ERR_clear_error()
            let part = bytes.readable
            let count = SSL_write(ssl, part.baseAddress, Int32(min(part.count, 1 << 20)))
            guard count > 0 else { throw TLSError.taken(.broken, "TLS connection refused to send") }
            bytes.consume(Int(count))
        }
    }

    /// Says goodbye to the peer; the alert stands in `outgoing`.
    package func close() {
        ERR_clear_error()
        if isEstablished { SSL_shutdown(ssl) }
    }

    private var hasAgreedOnHTTP2: Bool {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        SSL_get0_alpn_selected(ssl, &name, &length)
        guard length == 2, let name else { return false }
        return name[0] == 0x68 && name[1] == 0x32
    }

    private func handshake() throws(TLSError) {
        ERR_clear_error()
        let result = SSL_do_handshake(ssl)
        if result == 1 {
            guard !context.requiresHTTP2 || hasAgreedOnHTTP2 else {
                throw TLSError(
                    .handshake, "the server does not offer HTTP/2 (ALPN h2): is it an APNs address?"
                )
            }
            isEstablished = true
            return
        }
        switch SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return
        default:
            let verdict = SSL_get_verify_result(ssl)
            if !context.isServer, verdict != X509_V_OK,
                let text = X509_verify_cert_error_string(verdict)
            {
                ERR_clear_error()
                throw TLSError(
                    .certificate,
                    "the server's certificate is refused: \(String(cString: text)) "
                        + "(name \(serverName ?? "none"))")
            }
            throw TLSError.taken(.handshake, "TLS handshake failed")
        }
    }
}

/// OpenSSL's input and output on the two queues of a connection.
private enum QueueBIO {
    nonisolated(unsafe) static let method: OpaquePointer? = {
        guard let method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "byte queues")
        else { return nil }
        BIO_meth_set_write_ex(method) { bio, data, count, written in
            guard let data, let pointer = BIO_get_data(bio) else { return 0 }
            let owner = Unmanaged<TLSConnection>.fromOpaque(pointer).takeUnretainedValue()
            owner.outgoing.append(UnsafeRawBufferPointer(start: data, count: count))
            written?.pointee = count
            return 1
        }
        BIO_meth_set_read_ex(method) { bio, data, wanted, read in
            peal_bio_clear_retry(bio)
            guard let data, let pointer = BIO_get_data(bio) else { return 0 }
            let queue = Unmanaged<TLSConnection>.fromOpaque(pointer).takeUnretainedValue().received
            guard !queue.isEmpty else {
                peal_bio_set_retry_read(bio)
                return 0
            }
            let count = min(wanted, queue.count)
            UnsafeMutableRawPointer(data).copyMemory(
                from: queue.readable.baseAddress ?? UnsafeRawPointer(data), byteCount: count)
            queue.consume(count)
            read?.pointee = count
            return 1
        }
        BIO_meth_set_ctrl(method) { _, command, _, _ in command == BIO_CTRL_FLUSH ? 1 : 0 }
        return method
    }()
}
