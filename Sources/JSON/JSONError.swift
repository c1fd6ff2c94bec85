/// Why a text is not JSON, and where.
package struct JSONError: Error, Equatable, CustomStringConvertible {
    /// What is wrong, a sentence without its full stop.
    package let message: String
    /// The line, from 1.
    package let line: Int
    /// The character in that line, from 1.
    package let column: Int

    /// The sentence with its place: `a comma or } is missing (line 3, column 7)`.
    package var description: String { "\(message) (line \(line), column \(column))" }
}

/// The limits of what the reader accepts.
package enum JSONLimits {
    /// Arrays and objects inside each other.
    package static let depth = 64
    /// Bytes of one text; an inline audience of 100,000 tokens takes 7 MB.
    package static let bytes = 64 << 20
}
