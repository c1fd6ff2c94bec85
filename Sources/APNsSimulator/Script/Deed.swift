internal import Base
internal import JSON

/// What a rule does about a request.
///
/// The request is *judged* as without a script where the deed leaves room for it: it may then have
/// been accepted although its answer is never sent.
package enum Deed: Sendable, Equatable {
    /// This answer, whatever the request deserves.
    case answer(ScriptedAnswer)
    /// The answer it deserves, so many nanoseconds later than usual.
    case delay(Int64)
    /// Never an answer.
    case silence(processed: Bool)
    /// RST_STREAM, and another one after it where `then` is given.
    case reset(code: UInt32, then: UInt32?, processed: Bool)
    case goAway(GoAway)
    /// The TCP connection ends without a word of HTTP/2 or TLS; `reset`: by a TCP reset.
    case close(processed: Bool, reset: Bool)
    /// Half-open: whatever arrives from now on is swallowed, PINGs too.
    case freeze
    /// The number of streams that the peer may open; `back` nanoseconds later the usual one again.
    case limit(streams: Int, back: Int64?)
    /// The window of each stream in bytes, and whether it is refilled.
    case window(size: Int, updates: Bool)

    /// A GOAWAY, or two of which the second has no debug data.
    package struct GoAway: Sendable, Equatable {
        /// The last stream that was processed.
        package enum Last: Sendable, Equatable {
            /// The one of this request.
            case this
            /// The one before it: this request was not processed.
            case previous
            /// Any: 2³¹ − 1, the announcement of an orderly shutdown.
            case all
            case stream(Int32)

            /// The number, seen from a request's stream or the newest one.
            func number(at stream: Int32) -> Int32 {
                switch self {
                case .this: stream
                case .previous: max(0, stream - 2)
                case .all: Int32.max
                case .stream(let number): number
                }
            }
        }
        package var last = Last.this
        /// An error code of RFC 9113 section 7.
        package var code: UInt32 = 0
        package var debug: [UInt8] = []
        package var frames = 1

        package init() {}

        /// The debug data with a reason, as APNs writes it.
        static func debug(reason: String) -> [UInt8] {
            JSONValue.object(["reason": .string(reason)]).serialized()
        }
    }

    /// The names of the error codes (RFC 9113 section 7), each at the place of its number.
    package static let errorCodes = [
        "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT",
        "STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR",
        "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
    ]
}

/// An answer as a script spells it out.
package struct ScriptedAnswer: Sendable, Equatable {
    /// The time of a 410.
    package struct Timestamp: Sendable, Equatable {
        package enum Unit: String, Sendable, CaseIterable { case milliseconds, seconds }
        package enum Form: String, Sendable, CaseIterable { case number, string }
        package enum Place: String, Sendable, CaseIterable { case both, body, header, none }
        package var unit = Unit.milliseconds
        /// How it stands in the body.
        package var form = Form.number
        package var place = Place.both
        /// Seconds before the answer.
        package var ago: Int64 = 3600

        package init() {}

        func value(now: Int64) -> Int64 {
            let time = now - ago * 1000
            return unit == .milliseconds ? time : time / 1000
        }
    }
    package enum ID: String, Sendable, CaseIterable { case same, other, none }
    package enum RetryAfter: Sendable, Equatable {
        /// Written as a number of seconds.
        case seconds(Int64)
        /// Written as an HTTP date, so many seconds after the answer.
        case date(Int64)
    }

    /// The most bytes of a body.
    package static let bodyLimit = 1 << 20

    package var status: Int
    /// Written into a JSON body; any text.
    package var reason: String?
    /// The body instead of JSON.
    package var text: String?
    /// The least number of bytes of the body: JSON gets a member `padding` before its reason, other
    /// text is repeated.
    package var size = 0
    /// DATA frames that the body is cut into.
    package var frames = 1
    /// Nil: as usual for a 410, and none for other statuses.
    package var timestamp: Timestamp?
    package var id = ID.same
    package var retryAfter: RetryAfter?
    /// A `date` field that is so many seconds ahead of the clock; nil for no such field.
    package var dateSkew: Int64?
    /// Nanoseconds later than usual.
    package var delay: Int64 = 0

    package init(status: Int, reason: String? = nil) {
        self.status = status
        self.reason = reason
    }

    var time: Timestamp? { timestamp ?? (status == 410 ? Timestamp() : nil) }

    /// The body; `now` in milliseconds since the epoch.
    func body(now: Int64) -> [UInt8] {
        if let text { return Self.repeated(Array(text.utf8), to: size) }
        var members: [String: JSONValue] = [:]
        if let reason { members["reason"] = .string(reason) }
        if let time, time.place == .both || time.place == .body {
            let value = time.value(now: now)
            members["timestamp"] = time.form == .number ? .integer(value) : .string(String(value))
        }
        if size > 0 { members["padding"] = "" }
        guard !members.isEmpty else { return [] }
        let missing = size - JSONValue.object(members).serialized().count
        if missing > 0 { members["padding"] = .string(String(repeating: "x", count: missing)) }
        return JSONValue.object(members).serialized()
    }

    private static func repeated(_ text: [UInt8], to size: Int) -> [UInt8] {
        guard !text.isEmpty, text.count < size else { return text }
        return (0..<size).map { text[$0 % text.count] }
    }
}
