package import Base
internal import CNghttp2

/// The client side of one HTTP/2 connection: bytes in, bytes and events out, no socket inside.
///
/// 1. It starts with one allowed stream until the peer's SETTINGS arrive (APNs allows a single
///    stream until the first good provider token; "Sending notification requests to APNs").
/// 2. It never opens more streams than the peer's present limit: `capacity` is what is left.
/// 3. It reports every submitted request exactly once, as `ended`.
///
/// Confined to one thread. Events collect in `events`; the owner takes them after `receive`.
package final class HTTP2Client {
    /// Bytes for the peer, filled by `flush`.
    package let output = ByteQueue(capacity: 64 * 1024)
    package private(set) var events: [HTTP2ClientEvent] = []
    /// Streams that are open or submitted.
    package private(set) var openStreams = 0
    /// The peer said GOAWAY; nothing new may be submitted.
    package private(set) var isDraining = false
    /// Stream ids are used up or nearly: the connection must be replaced (RFC 9113 section 5.1.1).
    package private(set) var idsExhausted = false

    /// The peer's limit, as of its latest SETTINGS; 1 before them.
    package private(set) var peerLimit = 1

    private var session: OpaquePointer?
    private let streamLimit: Int
    private let slots: UnsafeMutablePointer<Slot>
    private var freeSlots: [Int]
    private var fields: [nghttp2_nv] = []
    private var isTakingEvents = false

    fileprivate struct Slot {
        var tag: UInt64 = 0
        var status = 0
        var body = UnsafeRawBufferPointer(start: nil, count: 0)
        var sent = 0
        var detail: ResponseDetail?
    }

    /// - `streamLimit`: our own bound on open streams, whatever the peer allows.
    package init(streamLimit: Int) throws {
        self.streamLimit = streamLimit
        slots = .allocate(capacity: streamLimit)
        slots.initialize(repeating: Slot(), count: streamLimit)
        freeSlots = Array((0..<streamLimit).reversed())
        try open()
    }

    deinit {
        nghttp2_session_del(session)
        slots.deinitialize(count: streamLimit)
        slots.deallocate()
    }

    private func open() throws {
        var callbacks: OpaquePointer?
        nghttp2_session_callbacks_new(&callbacks)
        defer { nghttp2_session_callbacks_del(callbacks) }
        nghttp2_session_callbacks_set_on_header_callback(callbacks, clientHeader)
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, clientData)
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, clientClose)
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, clientFrame)
        var option: OpaquePointer?
        nghttp2_option_new(&option)
        defer { nghttp2_option_del(option) }
        nghttp2_option_set_peer_max_concurrent_streams(option, 1)
        let context = Unmanaged.passUnretained(self).toOpaque()
        try Session.check(nghttp2_session_client_new2(&session, callbacks, context, option))
        var settings = [
            nghttp2_settings_entry(
                settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0)
        ]
        try Session.check(
            nghttp2_submit_settings(
                session, UInt8(NGHTTP2_FLAG_NONE.rawValue), &settings, settings.count))
    }

    /// Requests that may be submitted now.
    package var capacity: Int {
        guard !isDraining, !idsExhausted else { return 0 }
        return max(0, min(peerLimit, streamLimit) - openStreams)
    }

    /// Bytes of bodies that the peer takes now on the whole connection (RFC 9113 section 6.9).
    package var sendWindow: Int { Int(nghttp2_session_get_remote_window_size(session)) }

    /// Opens a stream: HEADERS, then DATA that ends it.
    ///
    /// `fields` may point to temporary memory; `body` must stay where it is until the stream ended.
    /// Returns the stream id, or nil when the session takes no more requests.
    package func submit(
        fields request: UnsafeBufferPointer<HeaderField>, body: UnsafeRawBufferPointer, tag: UInt64
    ) -> Int32? {
        guard capacity > 0, let slot = freeSlots.popLast() else { return nil }
        fields.removeAll(keepingCapacity: true)
        for field in request {
            fields.append(
                nghttp2_nv(
                    name: UnsafeMutablePointer(mutating: field.name),
                    value: UnsafeMutablePointer(mutating: field.value),
                    namelen: field.nameCount, valuelen: field.valueCount,
                    flags: field.neverIndexed
                        ? UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue)
                        : UInt8(NGHTTP2_NV_FLAG_NONE.rawValue)))
        }
        slots[slot] = Slot(tag: tag, status: 0, body: body, sent: 0, detail: nil)
        var provider = nghttp2_data_provider()
        provider.source.ptr = UnsafeMutableRawPointer(slots + slot)
        provider.read_callback = clientBody
        let stream = nghttp2_submit_request(
            session, nil, &fields, fields.count, &provider, UnsafeMutableRawPointer(slots + slot))
        guard stream > 0 else {
            freeSlots.append(slot)
            if stream == Int32(NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE.rawValue) { idsExhausted = true }
            return nil
        }
        // Rotate well before the last id, 2^31 - 1.
        if stream > 2_000_000_000 { idsExhausted = true }
        openStreams += 1
        return stream
    }

    /// Gives up on a stream; it ends as `ended` with the code CANCEL.
    package func cancel(_ stream: Int32) {
        nghttp2_submit_rst_stream(
            session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, HTTP2ErrorCode.cancel)
    }

    /// Asks the peer for a sign of life; the answer is the event `pong`.
    package func ping() {
        nghttp2_submit_ping(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil)
    }

    /// Says GOAWAY in an orderly close.
    package func goAway() {
        nghttp2_submit_goaway(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, 0, nil, 0)
    }

    /// Reads all bytes of `input`.
    package func receive(_ input: ByteQueue) throws {
        try Session.receive(session, input)
    }

    /// Moves the frames that may be sent now into `output`.
    package func flush() throws {
        try Session.flush(session, into: output)
    }

    /// The session has said and heard all it ever will.
    package var isFinished: Bool {
        nghttp2_session_want_read(session) == 0 && nghttp2_session_want_write(session) == 0
    }

    /// The events since the last call.
    ///
    /// `body` must not call it again.
    package func takeEvents(_ body: (HTTP2ClientEvent) -> Void) {
        precondition(!isTakingEvents, "events are taken while events are taken")
        isTakingEvents = true
        var index = 0
        while index < events.count {
            body(events[index])
            index += 1
        }
        events.removeAll(keepingCapacity: true)
        isTakingEvents = false
    }

    fileprivate func ended(_ slot: UnsafeMutablePointer<Slot>, _ stream: Int32, _ code: UInt32) {
        openStreams -= 1
        events.append(
            .ended(
                StreamResult(
                    tag: slot.pointee.tag, stream: stream, status: slot.pointee.status,
                    errorCode: code, detail: slot.pointee.detail)))
        slot.pointee.detail = nil
        freeSlots.append(slot - slots)
    }

    fileprivate func received(_ frame: UnsafePointer<nghttp2_frame>) {
        switch UInt32(frame.pointee.hd.type) {
        case NGHTTP2_SETTINGS.rawValue
        where frame.pointee.hd.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) == 0:
            let limit = nghttp2_session_get_remote_settings(
                session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
            peerLimit = Int(min(limit, UInt32(Int32.max)))
            events.append(.settings(maxConcurrentStreams: peerLimit))
        case NGHTTP2_GOAWAY.rawValue:
            isDraining = true
            let goAway = frame.pointee.goaway
            let debug = UnsafeBufferPointer(
                start: goAway.opaque_data, count: goAway.opaque_data_len)
            events.append(
                .goAway(
                    lastStream: goAway.last_stream_id, code: goAway.error_code,
                    debug: Array(debug.prefix(1024))))
        case NGHTTP2_PING.rawValue
        where frame.pointee.hd.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0:
            events.append(.pong)
        default: break
        }
    }
}

private func owner(_ context: UnsafeMutableRawPointer?) -> HTTP2Client? {
    context.map { Unmanaged<HTTP2Client>.fromOpaque($0).takeUnretainedValue() }
}

private func slot(
    _ session: OpaquePointer?, _ stream: Int32
) -> UnsafeMutablePointer<HTTP2Client.Slot>? {
    nghttp2_session_get_stream_user_data(session, stream)?
        .assumingMemoryBound(to: HTTP2Client.Slot.self)
}

private let clientHeader: nghttp2_on_header_callback = {
    session, frame, name, nameCount, value, valueCount, _, _ in
    guard let frame, let name, let value, let slot = slot(session, frame.pointee.hd.stream_id)
    else { return 0 }
    if nameCount == 7 && name[0] == 0x3A {  // ":status", the only field of seven bytes with a colon
        var status = 0
        for index in 0..<valueCount { status = status * 10 + Int(value[index]) - 0x30 }
        if status >= 200 { slot.pointee.status = status }  // 1xx is not the answer yet
        return 0
    }
    guard slot.pointee.status != 200, slot.pointee.status != 0 else { return 0 }
    let detail = slot.pointee.detail ?? ResponseDetail()
    slot.pointee.detail = detail
    guard detail.fields.count < 32, nameCount + valueCount < 1024 else { return 0 }
    let text = { (start: UnsafePointer<UInt8>, count: Int) in
        String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    }
    detail.fields.append((text(name, nameCount), text(value, valueCount)))
    return 0
}

private let clientData: nghttp2_on_data_chunk_recv_callback = {
    session, _, stream, data, count, _ in
    guard let data, let slot = slot(session, stream), slot.pointee.status != 200 else { return 0 }
    let detail = slot.pointee.detail ?? ResponseDetail()
    slot.pointee.detail = detail
    let kept = min(count, ResponseDetail.bodyLimit - detail.body.count)
    if kept > 0 { detail.body.append(contentsOf: UnsafeBufferPointer(start: data, count: kept)) }
    return 0
}

private let clientClose: nghttp2_on_stream_close_callback = { session, stream, code, context in
    guard let slot = slot(session, stream) else { return 0 }
    owner(context)?.ended(slot, stream, code)
    return 0
}

private let clientFrame: nghttp2_on_frame_recv_callback = { _, frame, context in
    if let frame { owner(context)?.received(frame) }
    return 0
}

private let clientBody: nghttp2_data_source_read_callback = {
    _, _, buffer, length, flags, source, _ in
    guard let buffer, let slot = source?.pointee.ptr?.assumingMemoryBound(to: HTTP2Client.Slot.self)
    else { return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue) }
    let left = slot.pointee.body.count - slot.pointee.sent
    let count = min(left, length)
    if count > 0, let start = slot.pointee.body.baseAddress {
        UnsafeMutableRawPointer(buffer).copyMemory(
            from: start + slot.pointee.sent, byteCount: count)
    }
    slot.pointee.sent += count
    if count == left { flags?.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
    return count
}
