internal import FoundationEssentials
internal import Glibc

/// A directory of its own for one test, removed with everything in it when the last owner lets go.
package final class TemporaryDirectory: Sendable {
    /// The absolute path, without a slash at the end.
    package let path: String

    package init() throws {
        let base = ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp"
        var template = Array("\(base)/peal-test-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw TestKitError("no temporary directory in \(base) (error \(errno))")
        }
        path = String(
            decoding: template.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// The absolute path of `name` in this directory.
    package func file(_ name: String) -> String { "\(path)/\(name)" }

    /// Writes a file and returns its absolute path.
    @discardableResult
    package func write(_ name: String, _ bytes: [UInt8]) throws -> String {
        try Data(bytes).write(to: URL(filePath: file(name)))
        return file(name)
    }

    @discardableResult
    package func write(_ name: String, _ text: String) throws -> String {
        try write(name, Array(text.utf8))
    }

    /// The bytes of a file.
    package func bytes(_ name: String) throws -> [UInt8] {
        [UInt8](try Data(contentsOf: URL(filePath: file(name))))
    }

    /// The text of a file, or nothing while it does not exist.
    package func text(_ name: String) -> String {
        (try? bytes(name)).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    package func exists(_ name: String) -> Bool { TemporaryDirectory.isFile(file(name)) }

    /// Whether there is something at an absolute path.
    package static func isFile(_ path: String) -> Bool {
        FileManager.default.fileExists(atPath: path)
    }

    /// Copies a file or a directory with all that is in it to `target`, which must not exist.
    package func copy(_ name: String, to target: String) throws {
        try FileManager.default.copyItem(atPath: file(name), toPath: file(target))
    }

    package func remove(_ name: String) throws {
        try FileManager.default.removeItem(atPath: file(name))
    }
}
