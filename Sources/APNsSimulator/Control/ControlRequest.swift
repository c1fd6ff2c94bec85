internal import Base

/// A request to the control endpoint.
package struct ControlRequest: Sendable, Equatable {
    package let method: String
    package let path: String
    package var body: [UInt8] = []

    /// The most bytes of request line and header fields.
    package static let headerLimit = 8 * 1024
    /// The most bytes of a body.
    package static let bodyLimit = 1 << 20

    /// How far the bytes of a connection make a request.
    package enum Progress: Sendable, Equatable {
        /// More bytes are needed; `wantsContinue`: the peer waits to be told to send the body.
        case incomplete(wantsContinue: Bool)
        case whole(ControlRequest)
        case wrong(ControlResponse)
    }

    /// Reads one HTTP/1.1 request (RFC 9112), of which only this is taken: a path, `Host` with a
    /// name of this machine, and a body with `Content-Length`.
    package static func read(_ bytes: UnsafeRawBufferPointer) -> Progress {
        guard let end = headerEnd(bytes) else {
            return bytes.count < headerLimit
                ? .incomplete(wantsContinue: false)
                : .wrong(.fault(431, "the header has more than \(headerLimit) bytes"))
        }
        guard end <= headerLimit else {
            return .wrong(.fault(431, "the header has more than \(headerLimit) bytes"))
        }
        guard let header = String(validating: bytes[..<end], as: UTF8.self) else {
            return .wrong(.fault(400, "the header is not UTF-8"))
        }
        let lines = header.split(separator: "\r\n", omittingEmptySubsequences: false).dropLast(2)
        let words = (lines.first ?? "").split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 3, words[1].hasPrefix("/"), !words[0].isEmpty else {
            return .wrong(.fault(400, "the first line is not METHOD PATH HTTP/1.1"))
        }
        guard words[2] == "HTTP/1.1" else {
            return .wrong(.fault(505, "only HTTP/1.1 is spoken here"))
        }
        var fields: [String: String] = [:]
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: ":"), colon != line.startIndex,
                line[..<colon].utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
            else { return .wrong(.fault(400, "a header field is not NAME: VALUE")) }
            let name = line[..<colon].lowercased()
            guard fields[name] == nil || !["host", "content-length"].contains(name) else {
                return .wrong(.fault(400, "\(name) is given twice"))
            }
            fields[name] = trimmed(line[line.index(after: colon)...])
        }
        guard let host = fields["host"], isLocal(host) else {
            return .wrong(.fault(403, "Host is not localhost, 127.0.0.1 or [::1]"))
        }
        guard fields["transfer-encoding"] == nil else {
            return .wrong(.fault(501, "Transfer-Encoding is not taken; give Content-Length"))
        }
        let length = fields["content-length"] ?? "0"
        guard !length.isEmpty, length.utf8.count <= 18,
            length.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let count = Int(length)
        else { return .wrong(.fault(400, "Content-Length is no number")) }
        guard count <= bodyLimit else {
            return .wrong(.fault(413, "the body has more than \(bodyLimit) bytes"))
        }
        guard bytes.count >= end + count else {
            let waits = fields["expect"]?.lowercased() == "100-continue"
            return .incomplete(wantsContinue: waits && bytes.count == end)
        }
        return .whole(
            ControlRequest(
                method: String(words[0]), path: String(words[1]),
                body: Array(bytes[end..<end + count])))
    }

    /// The place after the empty line.
    private static func headerEnd(_ bytes: UnsafeRawBufferPointer) -> Int? {
        var index = 3
        while index < bytes.count {
            if bytes[index] == 0x0A, bytes[index - 1] == 0x0D, bytes[index - 2] == 0x0A,
                bytes[index - 3] == 0x0D
            {
                return index + 1
            }
            index += 1
        }
        return nil
    }

    private static func trimmed(_ text: Substring) -> String {
        let isSpace: (Character) -> Bool = { $0 == " " || $0 == "\t" }
        var text = text.drop(while: isSpace)
        while let last = text.last, isSpace(last) { text.removeLast() }
        return String(text)
    }

    /// Whether a request was meant for this machine: a page in a browser that reaches loopback
    /// through a name of its own is not.
    private static func isLocal(_ host: String) -> Bool {
        var name = host[...]
        if let colon = host.lastIndex(of: ":"), host.last != "]" {
            guard host[host.index(after: colon)...].utf8.allSatisfy({ (0x30...0x39).contains($0) })
            else { return false }
            name = host[..<colon]
        }
        return ["localhost", "127.0.0.1", "[::1]"].contains(name.lowercased())
    }
}
