internal import Glibc
internal import Worker

/// What the commands share of the world outside: output, environment, files.
enum Terminal {
    /// Writes to standard output.
    static func print(_ text: String) { write(text, to: STDOUT_FILENO) }

    /// Writes to standard error.
    static func complain(_ text: String) { write(text, to: STDERR_FILENO) }

    /// Whether standard output is a terminal that a person watches.
    static var isInteractive: Bool { isatty(STDOUT_FILENO) == 1 }

    /// The environment the process began with.
    ///
    /// Read from /proc, since the C variable `environ` is not safe to touch from Swift 6 code.
    static func environment() -> [String: String] {
        guard let bytes = try? FileReader.read("/proc/self/environ") else { return [:] }
        var variables: [String: String] = [:]
        for entry in bytes.split(separator: 0) {
            let text = String(decoding: entry, as: UTF8.self)
            guard let equals = text.firstIndex(of: "=") else { continue }
            variables[String(text[..<equals])] = String(text[text.index(after: equals)...])
        }
        return variables
    }

    /// The bytes of a configuration file.
    static func configuration(_ path: String) throws(Failure) -> [UInt8] {
        do { return try FileReader.read(path) } catch {
            throw .configuration("\(error); check --config or PEAL_CONFIG")
        }
    }

    private static func write(_ text: String, to descriptor: Int32) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 {
                bytes.removeFirst(count)
            } else if errno != EINTR {
                return
            }
        }
    }
}
