package import Base
internal import CNghttp2

/// What a server session reports, in the order it happened.
package enum HTTP2ServerEvent {
    /// A complete request; nil when the session does not keep requests.
    case request(stream: Int32, HTTP2Request?)
    /// The peer reset a stream or it ended otherwise than by our answer.
    case cancelled(stream: Int32, code: UInt32)
    /// The peer acknowledged our SETTINGS.
    case settingsAcknowledged
    case goAway(code: UInt32)
    /// The peer opened a stream above our limit, which was refused before it became a request.
    ///
    /// `acknowledged` false: it had not yet acknowledged the lower limit, so the stream was reset
    /// with REFUSED_STREAM; true: it broke the rule, and the connection ends (RFC 9113 section
    /// 5.1.2).
    case excessStream(acknowledged: Bool)
}

/// The server side of one HTTP/2 connection: bytes in, bytes and events out, no socket inside.
///
/// Confined to one thread. With `keepsRequests` false nothing of a request is stored: the cheapest
/// possible server, for load tests of clients.
package final class HTTP2Server {
    /// The SETTINGS a server opens with.
    package struct Settings: Sendable {
        package var maxConcurrentStreams = 1000
        package var headerTableSize = 4096
        package var initialWindowSize = 65_535
        package var maxHeaderListSize = 8000
        /// Whether the owner may stop giving the peer window (`givesWindow`).
        package var controlsWindow = false
        package init() {}
    }

    package let output = ByteQueue(capacity: 64 * 1024)
    package private(set) var events: [HTTP2ServerEvent] = []
    /// Whether bytes of bodies that were read are given back to the peer's windows.
    ///
    /// False starves a peer that sends; only for a session that `controlsWindow`.
    package var givesWindow = true
    private let keepsRequests: Bool
    private let controlsWindow: Bool
    private var session: OpaquePointer?
    private var requests: [Int32: HTTP2Request] = [:]
    /// The request whose header is arriving: header blocks never mix (RFC 9113 section 4.3).
    private var arriving: HTTP2Request?
    private var spares: [HTTP2Request] = []
    private var bodies: [Int32: Body] = [:]

    /// The body of an answer on its way.
    private struct Body {
        let bytes: [UInt8]
        var sent = 0
        /// The most bytes of one DATA frame.
        let frame: Int
    }

    package init(settings: Settings, keepsRequests: Bool) throws {
        self.keepsRequests = keepsRequests
        controlsWindow = settings.controlsWindow
        var callbacks: OpaquePointer?
        nghttp2_session_callbacks_new(&callbacks)
        defer { nghttp2_session_callbacks_del(callbacks) }
        if keepsRequests || controlsWindow {
            nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, serverData)
        }
        if keepsRequests {
            nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, serverBegin)
            nghttp2_session_callbacks_set_on_header_callback(callbacks, serverHeader)
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, serverFrame)
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, serverClose)
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, serverInvalid)
        var option: OpaquePointer?
        nghttp2_option_new(&option)
        defer { nghttp2_option_del(option) }
        nghttp2_option_set_no_closed_streams(option, 1)
        // A sender that gives up on many requests must not be shut out: the owner judges, not
        // nghttp2.
        nghttp2_option_set_stream_reset_rate_limit(option, 1_000_000, 100_000)
        if controlsWindow { nghttp2_option_set_no_auto_window_update(option, 1) }
        try Session.check(
            nghttp2_session_server_new2(
                &session, callbacks, Unmanaged.passUnretained(self).toOpaque(), option))
        try submit([
            (NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, settings.maxConcurrentStreams),
            (NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, settings.headerTableSize),
            (NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, settings.initialWindowSize),
            (NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, settings.maxHeaderListSize),
        ])
    }

    deinit { nghttp2_session_del(session) }

    /// Changes the number of streams the peer may have open.
    package func setMaxConcurrentStreams(_ limit: Int) throws {
        try submit([(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limit)])
    }

    /// Changes the window of each stream, in bytes, also of open ones (RFC 9113 section 6.9.2).
    package func setInitialWindowSize(_ size: Int) throws {
        try submit([(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, size)])
    }

    /// Gives a request back whose bytes are no longer needed, so that its memory serves another
    /// one.
    package func recycle(_ request: HTTP2Request) {
        guard spares.count < HTTP2Server.spareLimit else { return }
        request.clear()
        spares.append(request)
    }
    /// Requests kept for reuse.
    private static let spareLimit = 256

    /// Whether the peer still waits for an answer on `stream`.
    package func isOpen(_ stream: Int32) -> Bool {
        nghttp2_session_find_stream(session, stream) != nil
    }

    /// Answers a request; nothing happens when the peer has reset the stream.
    ///
    /// Empty `body` ends the stream with the header; another one is cut into at least `frames` DATA
    /// frames where it has as many bytes.
    package func respond(
        _ stream: Int32, status: Int, fields: [(name: [UInt8], value: [UInt8])] = [],
        body: [UInt8] = [], frames: Int = 1
    ) {
        guard isOpen(stream) else { return }
        var memory: [UInt8] = Array(":status".utf8) + Array(String(status).utf8)
        for field in fields { memory += field.name + field.value }
        memory.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return }
            var entries: [nghttp2_nv] = []
            var offset = 0
            func add(_ nameCount: Int, _ valueCount: Int, _ flags: UInt32) {
                entries.append(
                    nghttp2_nv(
                        name: base + offset, value: base + offset + nameCount, namelen: nameCount,
                        valuelen: valueCount, flags: UInt8(flags)))
                offset += nameCount + valueCount
            }
            add(7, 3, NGHTTP2_NV_FLAG_NONE.rawValue)
            for field in fields {
                add(field.name.count, field.value.count, NGHTTP2_NV_FLAG_NO_INDEX.rawValue)
            }
            guard !body.isEmpty else {
                nghttp2_submit_response(session, stream, &entries, entries.count, nil)
                return
            }
            bodies[stream] = Body(bytes: body, frame: max(1, body.count / max(1, frames)))
            var provider = nghttp2_data_provider()
            provider.source.ptr = Unmanaged.passUnretained(self).toOpaque()
            provider.read_callback = serverBody
            nghttp2_submit_response(session, stream, &entries, entries.count, &provider)
        }
    }

    /// Answers 200 with no field but the status.
    package func respondOK(_ stream: Int32) {
        HTTP2Server.okField.withUnsafeBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return }
            var entry = nghttp2_nv(
                name: UnsafeMutablePointer(mutating: base),
                value: UnsafeMutablePointer(mutating: base + 7), namelen: 7, valuelen: 3,
                flags: UInt8(
                    NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue))
            nghttp2_submit_response(session, stream, &entry, 1, nil)
        }
    }
    private static let okField = Array(":status200".utf8)

    package func reset(_ stream: Int32, code: UInt32) {
        nghttp2_submit_rst_stream(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, code)
    }

    /// Says GOAWAY: streams above `lastStream` were not processed.
    package func goAway(lastStream: Int32, code: UInt32, debug: [UInt8]) {
        nghttp2_submit_goaway(
            session, UInt8(NGHTTP2_FLAG_NONE.rawValue), lastStream, code, debug, debug.count)
    }

    /// The newest stream of the peer that was handed to the owner.
    package var lastStream: Int32 { nghttp2_session_get_last_proc_stream_id(session) }

    package func receive(_ input: ByteQueue) throws {
        try Session.receive(session, input)
    }

    package func flush() throws {
        try Session.flush(session, into: output)
    }

    /// The session has said and heard all it ever will.
    package var isFinished: Bool {
        nghttp2_session_want_read(session) == 0 && nghttp2_session_want_write(session) == 0
    }

    package func takeEvents(_ body: (HTTP2ServerEvent) -> Void) {
        var index = 0
        while index < events.count {
            body(events[index])
            index += 1
        }
        events.removeAll(keepingCapacity: true)
    }

    private func submit(_ settings: [(nghttp2_settings_id, Int)]) throws {
        let entries = settings.map {
            nghttp2_settings_entry(settings_id: Int32($0.0.rawValue), value: UInt32($0.1))
        }
        try Session.check(
            nghttp2_submit_settings(
                session, UInt8(NGHTTP2_FLAG_NONE.rawValue), entries, entries.count))
    }

    fileprivate func begin(_ stream: Int32) {
        guard requests[stream] == nil else { return }  // a trailer
        let request = spares.popLast() ?? HTTP2Request()
        request.stream = stream
        requests[stream] = request
        arriving = request
    }

    fileprivate func header(
        _ stream: Int32, _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>
    ) {
        guard let arriving, arriving.stream == stream else { return }
        arriving.add(name, value)
    }

    fileprivate func data(_ stream: Int32, _ bytes: UnsafeBufferPointer<UInt8>) {
        if controlsWindow, givesWindow { nghttp2_session_consume(session, stream, bytes.count) }
        requests[stream]?.addBody(bytes)
    }

    fileprivate func invalid(_ frame: UnsafePointer<nghttp2_frame>, _ error: Int32) {
        guard frame.pointee.hd.type == UInt8(NGHTTP2_HEADERS.rawValue),
            frame.pointee.headers.cat == NGHTTP2_HCAT_REQUEST
        else { return }
        // nghttp2's codes for the stream limit; the second one also stands for a stream number that
        // does not rise. A malformed field has another code.
        switch error {
        case NGHTTP2_ERR_REFUSED_STREAM.rawValue:
            events.append(.excessStream(acknowledged: false))
        case NGHTTP2_ERR_PROTO.rawValue: events.append(.excessStream(acknowledged: true))
        default: break
        }
    }

    fileprivate func received(_ frame: UnsafePointer<nghttp2_frame>) {
        let flags = frame.pointee.hd.flags
        switch UInt32(frame.pointee.hd.type) {
        case NGHTTP2_HEADERS.rawValue, NGHTTP2_DATA.rawValue:
            guard flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0 else { return }
            let stream = frame.pointee.hd.stream_id
            guard keepsRequests else {
                events.append(.request(stream: stream, nil))
                return
            }
            arriving = nil
            guard let request = requests.removeValue(forKey: stream) else { return }
            events.append(.request(stream: stream, request))
        case NGHTTP2_SETTINGS.rawValue where flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0:
            events.append(.settingsAcknowledged)
        case NGHTTP2_GOAWAY.rawValue:
            events.append(.goAway(code: frame.pointee.goaway.error_code))
        default: break
        }
    }

    fileprivate func closed(_ stream: Int32, _ code: UInt32) {
        if !bodies.isEmpty { bodies[stream] = nil }
        if !requests.isEmpty, let request = requests.removeValue(forKey: stream) {
            recycle(request)
        }
        if code != HTTP2ErrorCode.noError { events.append(.cancelled(stream: stream, code: code)) }
    }

    fileprivate func fill(
        _ stream: Int32, _ buffer: UnsafeMutablePointer<UInt8>, _ length: Int,
        _ flags: UnsafeMutablePointer<UInt32>?
    ) -> Int {
        guard let body = bodies[stream] else {
            flags?.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue
            return 0
        }
        let count = min(length, body.frame, body.bytes.count - body.sent)
        for index in 0..<count { buffer[index] = body.bytes[body.sent + index] }
        bodies[stream]?.sent += count
        if body.sent + count == body.bytes.count {
            flags?.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue
        }
        return count
    }
}

private func owner(_ context: UnsafeMutableRawPointer?) -> HTTP2Server? {
    context.map { Unmanaged<HTTP2Server>.fromOpaque($0).takeUnretainedValue() }
}

private let serverBegin: nghttp2_on_begin_headers_callback = { _, frame, context in
    if let frame { owner(context)?.begin(frame.pointee.hd.stream_id) }
    return 0
}

private let serverHeader: nghttp2_on_header_callback = {
    _, frame, name, nameCount, value, valueCount, _, context in
    guard let frame, let name, let value else { return 0 }
    owner(context)?.header(
        frame.pointee.hd.stream_id, UnsafeBufferPointer(start: name, count: nameCount),
        UnsafeBufferPointer(start: value, count: valueCount))
    return 0
}

private let serverData: nghttp2_on_data_chunk_recv_callback = {
    _, _, stream, data, count, context in
    owner(context)?.data(stream, UnsafeBufferPointer(start: data, count: count))
    return 0
}

private let serverFrame: nghttp2_on_frame_recv_callback = { _, frame, context in
    if let frame { owner(context)?.received(frame) }
    return 0
}

private let serverClose: nghttp2_on_stream_close_callback = { _, stream, code, context in
    owner(context)?.closed(stream, code)
    return 0
}

private let serverInvalid: nghttp2_on_invalid_frame_recv_callback = { _, frame, error, context in
    if let frame { owner(context)?.invalid(frame, error) }
    return 0
}

private let serverBody: nghttp2_data_source_read_callback = {
    _, stream, buffer, length, flags, source, _ in
    guard let buffer, let server = owner(source?.pointee.ptr) else {
        return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
    }
    return server.fill(stream, buffer, length, flags)
}
