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

    /// Why output cannot be written.
    struct Trouble {
        let isReaderGone: Bool
        let text: String
    }

    /// Writes bytes to standard output; answers what kept it from that.
    static func print(bytes: [UInt8]) -> Trouble? { write(bytes[...], to: STDOUT_FILENO) }

    private static func write(_ text: String, to descriptor: Int32) {
        _ = write(Array(text.utf8)[...], to: descriptor)
    }

    private static func write(_ bytes: ArraySlice<UInt8>, to descriptor: Int32) -> Trouble? {
        var rest = bytes
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if errno != EINTR {
                return Trouble(isReaderGone: errno == EPIPE, text: String(cString: strerror(errno)))
            }
        }
        return nil
    }
}
