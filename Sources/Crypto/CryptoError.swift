internal import COpenSSL

/// What went wrong with a key, a certificate or a file that holds one.
package struct CryptoError: Error, CustomStringConvertible, Sendable {
    package enum Code: Sendable, Equatable {
        /// The file does not exist.
        case missing
        /// The file exists but cannot be read or written.
        case unreadable
        /// The text is not the PEM form of a key of the wanted kind.
        case notPEM
        /// A key, but not one on the curve P-256.
        case notP256
        /// OpenSSL refused an operation.
        case openSSL
    }

    package let code: Code
    /// What is wrong and, for files, what to do about it.
    package let description: String

    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// Takes OpenSSL's newest error off its queue and empties the queue.
    static func taken(_ action: String) -> CryptoError {
        let number = ERR_peek_last_error()
        ERR_clear_error()
        guard number != 0 else { return CryptoError(.openSSL, action) }
        var buffer = [CChar](repeating: 0, count: 256)
        ERR_error_string_n(number, &buffer, buffer.count)
        let text = String(
            decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return CryptoError(.openSSL, "\(action): \(text.split(separator: ":").last ?? "unknown")")
    }
}
