internal import Base
internal import EventLoop
internal import Glibc

/// The file with one line for each request, so that tests can prove what arrived.
///
/// A line has seven fields with one space between them:
///
///     1796000000123.456 3 41 0a1b2c… eabeae54-14a8-11e5-b60b-1697f925ec7b 200 accepted
///
/// 1. when it was read: milliseconds since the UNIX epoch, three digits after the point;
/// 2. the connection, counted from 1 in the order of TLS handshakes;
/// 3. the HTTP/2 stream;
/// 4. the device token as it stood in the path, `-` without one;
/// 5. the `apns-id` of the answer, as received or generated;
/// 6. the status that was sent, 0 when no answer was, for example because its connection ended
///    first;
/// 7. what became of the request: `accepted`, `refused` or `unprocessed`. `0 accepted` is a push
///    that was taken though its sender was never told.
///
/// A line is written when its request is answered or is past being answered, so that lines of
/// delayed answers are not in the order of the first field. Requests that were refused with their
/// stream by HTTP/2 (above a stream limit), or swallowed unread, have no line. Lines reach
/// the file within 100 ms and at the end. Any thread may add.
final class Recorder: Sendable {
    /// More bytes than this are written at once.
    private static let bufferLimit = 1 << 20
    /// The longest a line waits, in nanoseconds.
    static let interval: Int64 = 100_000_000

    private struct State {
        var buffer: [UInt8] = []
        var file: Int32
        var failure: String?
    }
    private let state: Lock<State>
    /// Nanoseconds from the boot-time clock to the epoch.
    private let offset: Int64

    /// Empties the file or makes it.
    init(path: String) throws {
        let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard file >= 0 else { throw SystemError("opening the record file \(path)") }
        state = Lock(State(file: file))
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        offset =
            Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec) - Instant.now().nanoseconds
    }

    deinit { close() }

    /// Why the file is not complete, or nil.
    var failure: String? { state.withLock { $0.failure } }

    func add(
        _ moment: Instant, connection: Int, stream: Int32, token: ArraySlice<UInt8>,
        id: ArraySlice<UInt8>, status: Int, verdict: Verdict
    ) {
        let microseconds = (moment.nanoseconds + offset) / 1000
        state.withLock { state in
            state.buffer.append(number: microseconds / 1000)
            state.buffer.append(0x2E)
            let fraction = UInt8(truncatingIfNeeded: microseconds % 1000 / 100)
            state.buffer.append(0x30 + fraction)
            state.buffer.append(0x30 + UInt8(truncatingIfNeeded: microseconds % 100 / 10))
            state.buffer.append(0x30 + UInt8(truncatingIfNeeded: microseconds % 10))
            state.buffer.append(0x20)
            state.buffer.append(number: Int64(connection))
            state.buffer.append(0x20)
            state.buffer.append(number: Int64(stream))
            state.buffer.append(0x20)
            state.buffer.append(field: token)
            state.buffer.append(0x20)
            state.buffer.append(field: id)
            state.buffer.append(0x20)
            state.buffer.append(number: Int64(status))
            state.buffer.append(0x20)
            state.buffer.append(contentsOf: verdict.rawValue.utf8)
            state.buffer.append(0x0A)
            if state.buffer.count > Recorder.bufferLimit { Recorder.write(&state) }
        }
    }

    func flush() { state.withLock { Recorder.write(&$0) } }

    func close() {
        state.withLock { state in
            Recorder.write(&state)
            if state.file >= 0 { Glibc.close(state.file) }
            state.file = -1
        }
    }

    private static func write(_ state: inout State) {
        var sent = 0
        while sent < state.buffer.count, state.file >= 0 {
            let count = state.buffer.withUnsafeBytes {
                Glibc.write(state.file, $0.baseAddress.map { $0 + sent }, $0.count - sent)
            }
            if count < 0 && errno == EINTR { continue }
            guard count > 0 else {
                state.failure = SystemError("writing the record file").description
                break
            }
            sent += count
        }
        state.buffer.removeAll(keepingCapacity: true)
    }
}

extension [UInt8] {
    /// Appends the decimal digits of a number that is not negative.
    fileprivate mutating func append(number: Int64) {
        var divisor: Int64 = 1
        while number / divisor >= 10 { divisor *= 10 }
        while divisor > 0 {
            append(0x30 + UInt8(truncatingIfNeeded: number / divisor % 10))
            divisor /= 10
        }
    }

    /// Appends printable bytes as they are, others as `?`, and `-` for nothing.
    fileprivate mutating func append(field: ArraySlice<UInt8>) {
        guard !field.isEmpty else {
            append(0x2D)
            return
        }
        let start = count
        append(contentsOf: field)
        for index in start..<count where !(0x21...0x7E).contains(self[index]) { self[index] = 0x3F }
    }
}
