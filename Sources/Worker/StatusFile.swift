internal import Glibc

/// A small file that others read at any moment: a reader sees the old content or the new one.
struct StatusFile: Sendable {
    /// Why it cannot be written, in one sentence.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    let path: String

    /// Writes a file beside it and renames that.
    func write(_ bytes: [UInt8]) throws(Failure) {
        let fresh = "\(path).tmp"
        let descriptor = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw failure() }
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if errno != EINTR {
                defer { close(descriptor) }
                throw failure()
            }
        }
        close(descriptor)
        guard rename(fresh, path) == 0 else { throw failure() }
    }

    private func failure() -> Failure {
        let why = String(cString: strerror(errno))
        return Failure(
            description: "the status file \(path) cannot be written: \(why); check --status-file")
    }
}
