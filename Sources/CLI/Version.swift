/// The version of the program.
enum Version {
    static let text = "0.1.0"
}

/// `peal version`.
let versionCommand = Command(
    name: "version", summary: "Prints the version.",
    examples: [("peal version", "Prints one line: peal and its version.")]
) { _ in
    Terminal.print("peal \(Version.text)\n")
    return ExitCode.success
}
