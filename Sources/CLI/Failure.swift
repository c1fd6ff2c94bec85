/// The exit codes of the program (sysexits.h where one fits).
enum ExitCode {
    static let success: Int32 = 0
    /// A check found something; its output says what.
    static let found: Int32 = 1
    /// The command line is wrong.
    static let usage: Int32 = 64
    /// Redis or APNs could not be reached within the start limit.
    static let unavailable: Int32 = 69
    /// An invariant is broken: an account that does not add up, or a programmer's mistake.
    static let invariant: Int32 = 70
    /// A stopped worker could not give everything back in its grace time.
    static let partlyDrained: Int32 = 75
    /// A configuration file, an environment variable or a credential is wrong.
    static let configuration: Int32 = 78
}

/// Why a command ends early: one line for the operator and the exit code.
struct Failure: Error, Equatable {
    let code: Int32
    /// What is wrong, where, and what to do, in one line.
    let message: String

    static func usage(_ message: String) -> Failure { Failure(code: ExitCode.usage, message) }
    static func unavailable(_ message: String) -> Failure {
        Failure(code: ExitCode.unavailable, message)
    }
    static func configuration(_ message: String) -> Failure {
        Failure(code: ExitCode.configuration, message)
    }

    init(code: Int32, _ message: String) {
        self.code = code
        self.message = message
    }
}
