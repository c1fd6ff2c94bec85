internal import Base
internal import CNghttp2

/// What the client and the server side do alike with an nghttp2 session.
enum Session {
    /// Reads all bytes of `input`.
    static func receive(_ session: OpaquePointer?, _ input: ByteQueue) throws {
        let bytes = input.readable
        guard let start = bytes.baseAddress, bytes.count > 0 else { return }
        let count = nghttp2_session_mem_recv(
            session, start.assumingMemoryBound(to: UInt8.self), bytes.count)
        guard count >= 0 else { throw error(Int(count)) }
        input.consume(Int(count))
    }

    /// Moves the frames that may be sent now into `output`.
    static func flush(_ session: OpaquePointer?, into output: ByteQueue) throws {
        while true {
            var data: UnsafePointer<UInt8>?
            let count = nghttp2_session_mem_send(session, &data)
            guard count >= 0 else { throw error(Int(count)) }
            guard count > 0, let data else { return }
            output.append(UnsafeRawBufferPointer(start: data, count: Int(count)))
        }
    }

    static func check(_ result: Int32) throws { if result < 0 { throw error(Int(result)) } }

    private static func error(_ code: Int) -> HTTP2Error {
        HTTP2Error(code: code, description: String(cString: nghttp2_strerror(Int32(code))))
    }
}
