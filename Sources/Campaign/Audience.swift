/// Where the recipients of a campaign come from.
package enum Audience: Equatable, Sendable {
    /// Texts of device tokens inside the job. One that is no token is skipped and counted, never a
    /// fault of the job.
    case tokens([String])
    /// A Redis list whose elements are texts of device tokens; the whole key, without Peal's
    /// namespace. It is read, not consumed.
    case redisList(String)
    /// A file with one token in each line, on the machine of the worker.
    case file(String)

    /// The most tokens inside a job; more belong in a list or a file.
    package static let maximumInline = 100_000
    /// The longest Redis key or path, in bytes.
    package static let maximumName = 1024

    /// The kind and place in a few words.
    package var summary: String {
        switch self {
        case .tokens(let tokens):
            "\(tokens.count) token\(tokens.count == 1 ? "" : "s") inside the job"
        case .redisList(let key): "Redis list \(key)"
        case .file(let path): "file \(path)"
        }
    }
}
