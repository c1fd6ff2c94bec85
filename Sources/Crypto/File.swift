internal import Glibc

/// Small files that hold keys and certificates.
enum File {
    /// A key or certificate file longer than this many bytes is refused.
    static let limit = 64 * 1024

    static func read(_ path: String) throws(CryptoError) -> [UInt8] {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else {
            let number = errno
            let missing = number == ENOENT || number == ENOTDIR
            throw CryptoError(
                missing ? .missing : .unreadable,
                missing
                    ? "the file \(path) does not exist: check the path"
                    : "the file \(path) cannot be read: \(reason(number))")
        }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: limit + 1)
        var count = 0
        while count < bytes.count {
            let part = bytes.withUnsafeMutableBytes {
                Glibc.read(file, $0.baseAddress.map { $0 + count }, $0.count - count)
            }
            if part < 0 && errno == EINTR { continue }
            guard part >= 0 else {
                throw CryptoError(.unreadable, "the file \(path) cannot be read: \(reason(errno))")
            }
            if part == 0 { break }
            count += part
        }
        guard count <= limit else {
            throw CryptoError(
                .notPEM, "the file \(path) is longer than \(limit) bytes: it is not a key file")
        }
        return Array(bytes.prefix(count))
    }

    /// Writes a file at once; `mode` applies to a new file and to one that is there.
    static func write(_ path: String, _ text: String, mode: mode_t) throws(CryptoError) {
        let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode)
        guard file >= 0 else {
            throw CryptoError(.unreadable, "the file \(path) cannot be written: \(reason(errno))")
        }
        defer { close(file) }
        fchmod(file, mode)
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
            if count < 0 && errno == EINTR { continue }
            guard count > 0 else {
                throw CryptoError(
                    .unreadable, "the file \(path) cannot be written: \(reason(errno))")
            }
            bytes = bytes.dropFirst(count)
        }
    }

    private static func reason(_ number: Int32) -> String {
        strerror(number).map { String(cString: $0) } ?? "error \(number)"
    }
}
