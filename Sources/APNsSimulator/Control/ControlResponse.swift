internal import JSON

/// An answer of the control endpoint: JSON, after which the connection ends.
package struct ControlResponse: Sendable, Equatable {
    package let status: Int
    package let body: String
    /// The methods that a path takes, with 405.
    package var allowed: String?

    static func json(_ status: Int, _ value: JSONValue) -> ControlResponse {
        ControlResponse(status: status, body: value.pretty() + "\n")
    }

    static func fault(_ status: Int, _ message: String) -> ControlResponse {
        json(status, ["faults": [["path": "", "message": .string(message)]]])
    }

    static func faults(_ failure: ScriptFailure) -> ControlResponse {
        json(
            400,
            [
                "faults": .array(
                    failure.faults.map {
                        ["path": .string($0.path), "message": .string($0.message)]
                    })
            ])
    }

    static func notAllowed(_ allowed: String) -> ControlResponse {
        var response = fault(405, "write \(allowed)")
        response.allowed = allowed
        return response
    }

    private static let phrases = [
        200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found",
        405: "Method Not Allowed", 408: "Request Timeout", 409: "Conflict",
        413: "Content Too Large", 431: "Request Header Fields Too Large", 501: "Not Implemented",
        503: "Service Unavailable", 505: "HTTP Version Not Supported",
    ]

    var bytes: [UInt8] {
        var text = "HTTP/1.1 \(status) \(Self.phrases[status] ?? "")\r\n"
        text += "content-type: application/json\r\ncontent-length: \(body.utf8.count)\r\n"
        if let allowed { text += "allow: \(allowed)\r\n" }
        return Array((text + "connection: close\r\n\r\n" + body).utf8)
    }
}
