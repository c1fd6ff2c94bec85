internal import Base
internal import FoundationEssentials
internal import Glibc

/// A program as a child process, killed when its owner lets go of it, whatever became of the test.
///
/// 1. Standard input is empty; standard output and error go to files of its own directory.
/// 2. Exactly one `waitpid` collects it, so that its process id is never used after its end.
package final class ChildProcess: Sendable {
    /// How a process ended.
    package enum End: Equatable, Sendable {
        case exit(Int32)
        case signal(Int32)
    }

    package let processID: Int32
    private let command: [String]
    private let directory: TemporaryDirectory
    private let ended = Lock<End?>(nil)

    /// Starts a program: a path, or a name to look up in `PATH`.
    ///
    /// `environment` is added to the environment of the tests, whose `PEAL_…` are left out.
    package init(
        _ program: String, _ arguments: [String] = [], environment: [String: String] = [:]
    ) throws {
        let directory = try TemporaryDirectory()
        var variables = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("PEAL_") }
        variables.merge(environment) { $1 }
        self.directory = directory
        command = [program] + arguments
        processID = try Spawner.spawn(
            command, environment: variables, output: directory.file("stdout"),
            errors: directory.file("stderr"))
    }

    /// Starts the built `peal`.
    package static func peal(
        _ arguments: [String], environment: [String: String] = [:]
    ) throws -> ChildProcess {
        try ChildProcess(try pealProgram(), arguments, environment: environment)
    }

    /// The path of the built `peal`, which stands beside the bundle of the tests.
    package static func pealProgram() throws -> String {
        var folders: [String] = []
        let maps = (try? Data(contentsOf: URL(filePath: "/proc/self/maps"))) ?? Data()
        for line in String(decoding: maps, as: UTF8.self).split(separator: "\n") {
            guard let start = line.firstIndex(of: "/"), line.hasSuffix(".xctest") else { continue }
            folders.append(String(line[start...]))
        }
        folders.append(
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? "")
        for folder in folders {
            let path = folder.split(separator: "/").dropLast().joined(separator: "/")
            let program = "/\(path)/peal"
            if FileManager.default.isExecutableFile(atPath: program) { return program }
        }
        throw TestKitError("the program peal is not beside the tests; build it first")
    }

    deinit { kill() }

    /// What it has written to standard output so far.
    package var output: String { directory.text("stdout") }
    /// What it has written to standard error so far.
    package var errors: String { directory.text("stderr") }
    /// How it ended, or nil while it runs.
    package var end: End? { ended.withLock { collect(&$0, options: WNOHANG) } }
    package var isRunning: Bool { end == nil }

    /// Sends a signal, such as `SIGTERM`, unless it has ended.
    package func send(_ signal: Int32) {
        ended.withLock { end in
            if collect(&end, options: WNOHANG) == nil { _ = Glibc.kill(processID, signal) }
        }
    }

    /// Ends it with SIGKILL, also when it is stopped, and collects it.
    package func kill() {
        ended.withLock { end in
            guard collect(&end, options: WNOHANG) == nil else { return }
            _ = Glibc.kill(processID, SIGKILL)
            collect(&end, options: 0)
        }
    }

    /// Waits for its end; throws with its last words after `limit`.
    @discardableResult
    package func wait(within limit: Duration = defaultWait) async throws -> End {
        do {
            return try await eventually(value: "the end of a process", within: limit) { end }
        } catch is TestKitError {
            throw TestKitError(
                "\(command.joined(separator: " ")) has not ended within \(limit):\n"
                    + String(errors.suffix(2000)))
        }
    }

    /// Runs a program to its end.
    package static func run(
        _ program: String, _ arguments: [String], environment: [String: String] = [:],
        within limit: Duration = defaultWait
    ) async throws -> (end: End, output: String, errors: String) {
        let process = try ChildProcess(program, arguments, environment: environment)
        let end = try await process.wait(within: limit)
        return (end, process.output, process.errors)
    }

    @discardableResult
    private func collect(_ end: inout End?, options: Int32) -> End? {
        guard end == nil else { return end }
        var status: Int32 = 0
        var collected = waitpid(processID, &status, options)
        while collected < 0 && errno == EINTR { collected = waitpid(processID, &status, options) }
        guard collected == processID else { return nil }
        // The low seven bits are the signal that ended it, the next byte is the exit code.
        let signal = status & 0x7F
        end = signal == 0 ? .exit(status >> 8 & 0xFF) : .signal(signal)
        return end
    }
}
