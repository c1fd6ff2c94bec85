internal import Glibc

/// Reads whole small files: jobs, configuration, keys.
package enum FileReader {
    /// Why a file could not be read.
    package struct Failure: Error, CustomStringConvertible {
        package let path: String
        /// The system's error number; 0 when the file is too long.
        package let code: Int32

        /// One sentence with the path and without a full stop.
        package var description: String {
            if code == 0 {
                return "cannot read \(path): it is longer than \(FileReader.maximumBytes) bytes"
            }
            return "cannot read \(path): \(String(cString: strerror(code)))"
        }
    }

    /// The longest file that is read, in bytes.
    package static let maximumBytes = 64 << 20

    /// The bytes of a file; `-` means standard input.
    package static func read(_ path: String) throws(Failure) -> [UInt8] {
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Failure(path: path, code: errno) }
        defer { if path != "-" { close(descriptor) } }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = chunk.withUnsafeMutableBytes {
                Glibc.read(descriptor, $0.baseAddress, $0.count)
            }
            if count == 0 { return bytes }
            if count < 0 {
                if errno == EINTR { continue }
                throw Failure(path: path, code: errno)
            }
            bytes.append(contentsOf: chunk[..<count])
            guard bytes.count <= maximumBytes else { throw Failure(path: path, code: 0) }
        }
    }
}
