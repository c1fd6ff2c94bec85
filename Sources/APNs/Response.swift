internal import Base
internal import JSON

/// An answer of APNs, read defensively.
package struct Response: Hashable, Sendable {
    /// The longest body that is read, in bytes; Apple's are below 100.
    ///
    /// A longer one counts as one without a reason.
    package static let maximumBody = 4096

    package let status: Int
    /// The reason, or nil for success and for a body without one.
    package let reason: Reason?
    /// When the token was found inactive; of answers with the verdict `gone` only.
    package let goneAt: GoneTime?

    package var reaction: Reaction { Reaction.of(status: status, reason: reason) }
    package var verdict: Verdict { reaction.verdict }

    /// The name to count and store: the reason, or `Status418` where there is none.
    package var label: String { reason?.text ?? "Status\(status)" }

    /// When APNs found a token inactive, and where that time comes from.
    package struct GoneTime: Hashable, Sendable {
        /// Milliseconds since the UNIX epoch.
        package let milliseconds: Int64
        package let source: Source

        package enum Source: String, Sendable {
            /// `timestamp` in the body, as Apple documents.
            case body
            /// The header `apns-unless-timestamp`, which other texts name.
            case header
            /// Neither was there: the time at which the request was sent, so that a registration
            /// that races with the push survives.
            case sentAt = "sent_at"
        }
    }

    /// Reads an answer.
    ///
    /// - Parameters:
    ///   - status: The HTTP status.
    ///   - body: The body as far as it was kept; empty is normal for 200.
    ///   - unlessTimestamp: The header of that name, if it came.
    ///   - sentAt: When the request was sent, milliseconds since the epoch.
    package init(status: Int, body: [UInt8], unlessTimestamp: String? = nil, sentAt: Int64) {
        self.status = status
        var members: [String: JSONValue] = [:]
        if status != 200, !body.isEmpty, body.count <= Self.maximumBody,
            let json = try? JSONValue.parse(body)
        {
            members = json.object ?? [:]
        }
        reason = members["reason"]?.string.flatMap { $0.isEmpty ? nil : Reason($0) }
        guard Verdict.of(status: status, reason: reason) == .gone else {
            goneAt = nil
            return
        }
        if let time = Self.milliseconds(members["timestamp"], sentAt: sentAt) {
            goneAt = GoneTime(milliseconds: time, source: .body)
        } else if let time = Self.milliseconds(
            unlessTimestamp.map { .string($0) }, sentAt: sentAt)
        {
            goneAt = GoneTime(milliseconds: time, source: .header)
        } else {
            goneAt = GoneTime(milliseconds: sentAt, source: .sentAt)
        }
    }

    /// Milliseconds of a time in either unit: below 1e11 it is seconds (until the year 5138).
    ///
    /// A number or its text. A time more than a day after the request can't be meant and would
    /// undo every later registration, so it counts as absent.
    private static func milliseconds(_ value: JSONValue?, sentAt: Int64) -> Int64? {
        let number: Double?
        switch value {
        case .integer(let whole)?: number = Double(whole)
        case .number(let double)?: number = double
        case .string(let text)?: number = Double(text)
        default: number = nil
        }
        guard let number, number > 0,
            let time = Int64(exactly: (number < 1e11 ? number * 1000 : number).rounded()),
            time <= sentAt + 86_400_000
        else { return nil }
        return time
    }
}

/// The header `retry-after` (RFC 9110, 10.2.3).
package enum RetryAfter {
    /// The longest wait that is believed, in seconds.
    package static let maximumSeconds: Int64 = 3600

    /// Reads the header's value.
    ///
    /// - Parameters:
    ///   - text: The value of the header.
    ///   - now: Milliseconds since the epoch.
    /// - Returns: Seconds to wait; nil when it is neither a number of seconds nor an HTTP date.
    package static func seconds(_ text: String, now: Int64) -> Int64? {
        if let seconds = Int64(text) {
            return seconds < 0 ? nil : min(seconds, maximumSeconds)
        }
        // Sun, 06 Nov 1994 08:49:37 GMT
        let parts = text.split(separator: " ")
        let months = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ]
        guard parts.count == 6, parts[5] == "GMT",
            let month = months.firstIndex(where: { $0 == parts[2] })
        else { return nil }
        let twoDigits = month < 9 ? "0\(month + 1)" : "\(month + 1)"
        guard
            let time = WallClock.parseRFC3339("\(parts[3])-\(twoDigits)-\(parts[1])T\(parts[4])Z")
        else { return nil }
        return min(max(0, (time - now + 999) / 1000), maximumSeconds)
    }
}
