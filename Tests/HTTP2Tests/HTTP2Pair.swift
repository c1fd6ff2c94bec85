import Base
import HTTP2

/// A client and a server session whose queues are piped to each other.
final class HTTP2Pair {
    let client: HTTP2Client
    let server: HTTP2Server
    /// Bytes that are handed over at once.
    var chunk = 1 << 20
    private(set) var results: [StreamResult] = []
    private(set) var others: [String] = []
    private(set) var requests: [HTTP2Request] = []
    private(set) var cancelled: [String] = []
    private var kept: [UnsafeMutableRawBufferPointer] = []

    init(streamLimit: Int = 1000, settings: HTTP2Server.Settings = .init()) throws {
        client = try HTTP2Client(streamLimit: streamLimit)
        server = try HTTP2Server(settings: settings, keepsRequests: true)
    }

    deinit { for block in kept { block.deallocate() } }

    /// Submits a request with a body that stays where it is.
    func submit(_ tag: UInt64, body: [UInt8] = [1], path: String = "/3/device/aa") -> Int32? {
        let block = UnsafeMutableRawBufferPointer.allocate(byteCount: body.count, alignment: 1)
        block.copyBytes(from: body)
        kept.append(block)
        let texts = [
            (":method", "POST"), (":scheme", "https"), (":path", path), (":authority", "a"),
        ].map { (Array($0.0.utf8), Array($0.1.utf8)) }
        return Self.withFields(texts[...], []) { fields in
            fields.withUnsafeBufferPointer {
                client.submit(fields: $0, body: UnsafeRawBufferPointer(block), tag: tag)
            }
        }
    }

    private static func withFields<Value>(
        _ texts: ArraySlice<([UInt8], [UInt8])>, _ fields: [HeaderField],
        _ body: ([HeaderField]) -> Value
    ) -> Value {
        guard let (name, value) = texts.first else { return body(fields) }
        return name.withUnsafeBufferPointer { name in
            value.withUnsafeBufferPointer { value in
                withFields(
                    texts.dropFirst(), fields + [HeaderField(name: name, value: value)], body)
            }
        }
    }

    /// Carries bytes to and fro until both sides are silent.
    func pump() throws {
        let (toServer, toClient) = (ByteQueue(), ByteQueue())
        while true {
            try client.flush()
            try server.flush()
            guard !client.output.isEmpty || !server.output.isEmpty else { break }
            try carry(client.output, toServer) { try server.receive($0) }
            try carry(server.output, toClient) { try client.receive($0) }
            collect()
        }
        collect()
    }

    private func carry(
        _ from: ByteQueue, _ to: ByteQueue, _ receive: (ByteQueue) throws -> Void
    ) throws {
        while !from.isEmpty {
            let part = Array(from.readable.prefix(chunk))
            from.consume(part.count)
            to.append(part)
            try receive(to)
        }
    }

    private func collect() {
        client.takeEvents { event in
            switch event {
            case .ended(let result): results.append(result)
            case .settings(let limit): others.append("settings \(limit)")
            case .goAway(let last, let code, let debug):
                others.append("goaway \(last) \(code) \(String(decoding: debug, as: UTF8.self))")
            case .pong: others.append("pong")
            }
        }
        server.takeEvents { event in
            switch event {
            case .request(_, let request): if let request { requests.append(request) }
            case .cancelled(let stream, let code): cancelled.append("\(stream) \(code)")
            case .settingsAcknowledged, .goAway, .excessStream: break
            }
        }
    }
}
