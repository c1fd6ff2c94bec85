/// What went wrong in an HTTP/2 session: nghttp2's code and words.
package struct HTTP2Error: Error, CustomStringConvertible, Sendable {
    package let code: Int
    package let description: String
}

/// Error codes of RFC 9113 section 7 that Peal decides on.
package enum HTTP2ErrorCode {
    package static let noError: UInt32 = 0
    package static let internalError: UInt32 = 2
    /// The stream was not processed and may be sent again (RFC 9113 section 8.7).
    package static let refusedStream: UInt32 = 7
    package static let cancel: UInt32 = 8
}

/// One header field that points into memory of the caller, valid for the duration of the call.
package struct HeaderField {
    package var name: UnsafePointer<UInt8>
    package var nameCount: Int
    package var value: UnsafePointer<UInt8>
    package var valueCount: Int
    /// Sent as a literal that no hop may put into its dynamic table (RFC 7541 section 6.2.3).
    package var neverIndexed: Bool

    package init(
        name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>,
        neverIndexed: Bool = false
    ) {
        self.name = name.baseAddress ?? HeaderField.nothing
        nameCount = name.count
        self.value = value.baseAddress ?? HeaderField.nothing
        valueCount = value.count
        self.neverIndexed = neverIndexed
    }

    /// Where the pointer of an empty value goes: one byte that is never read.
    nonisolated(unsafe) private static let nothing = UnsafePointer(
        UnsafeMutablePointer<UInt8>.allocate(capacity: 1))
}

/// What an answer other than 200 carried beside its status.
package final class ResponseDetail {
    /// The largest error body that is kept; more is dropped, since APNs' are below 100 bytes.
    package static let bodyLimit = 4096

    package internal(set) var body: [UInt8] = []
    package internal(set) var fields: [(name: String, value: String)] = []

    /// The value of a field by its lower-case name.
    package func field(_ name: String) -> String? { fields.first { $0.name == name }?.value }
}

/// How one request ended.
package struct StreamResult {
    /// What the caller gave to `submit`.
    package let tag: UInt64
    package let stream: Int32
    /// The HTTP status, or 0 when no final response header arrived.
    package let status: Int
    /// The error code the stream was closed with (RFC 9113 section 7).
    package let errorCode: UInt32
    /// Body and fields of an answer other than 200.
    package let detail: ResponseDetail?
}

/// What a client session reports, in the order it happened.
package enum HTTP2ClientEvent {
    /// The peer's SETTINGS arrived; its stream limit may have changed either way.
    case settings(maxConcurrentStreams: Int)
    case ended(StreamResult)
    case goAway(lastStream: Int32, code: UInt32, debug: [UInt8])
    /// The answer to our PING.
    case pong
}
