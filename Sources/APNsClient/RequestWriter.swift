internal import APNs
internal import Base
internal import HTTP2

/// Forms the header fields of requests in memory of its own, without an allocation per request.
///
/// `apns-id` goes into the peer's dynamic table once per connection, so that its name is there, and
/// is a literal afterwards; everything that is constant in a campaign is indexed ("Sending
/// notification requests to APNs", on HPACK).
final class RequestWriter {
    private static let prefix = Array("/3/device/".utf8)
    private static let names = [
        ":method", "POST", ":scheme", "https", ":authority", ":path",
        "authorization", "apns-id",
    ]

    private let path: UnsafeMutablePointer<UInt8>
    private let id: UnsafeMutablePointer<UInt8>
    private let constants: UnsafeMutablePointer<UInt8>
    private var words: [UnsafeBufferPointer<UInt8>] = []
    private let host: UnsafeBufferPointer<UInt8>
    private var token: UnsafeMutableBufferPointer<UInt8>?
    private var fields: [HeaderField] = []
    private var isFirst = true

    init(authority: String) {
        path = .allocate(capacity: RequestWriter.prefix.count + 2 * DeviceToken.maximumBytes)
        for (index, byte) in RequestWriter.prefix.enumerated() { path[index] = byte }
        id = .allocate(capacity: 36)
        let texts = (RequestWriter.names + [authority]).map { Array($0.utf8) }
        constants = .allocate(capacity: texts.reduce(0) { $0 + $1.count })
        var end = 0
        var placed: [UnsafeBufferPointer<UInt8>] = []
        for text in texts {
            for (index, byte) in text.enumerated() { constants[end + index] = byte }
            placed.append(UnsafeBufferPointer(start: constants + end, count: text.count))
            end += text.count
        }
        host = placed.removeLast()
        words = placed
        fields.reserveCapacity(16)
    }

    deinit {
        path.deallocate()
        id.deallocate()
        constants.deallocate()
        token?.deallocate()
    }

    /// The provider token of the requests from now on; nil for none.
    func setToken(_ provider: ProviderToken?) {
        token?.deallocate()
        token = nil
        guard let provider else { return }
        let bytes = Array("bearer \(provider.text)".utf8)
        let buffer = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: bytes.count)
        _ = buffer.initialize(from: bytes)
        token = buffer
    }

    /// Hands the fields and body of `push` to `submit`; they are valid during the call, the body as
    /// long as the template.
    func write(
        _ push: Push, _ submit: (UnsafeBufferPointer<HeaderField>, UnsafeRawBufferPointer) -> Int32?
    ) -> Int32? {
        precondition(
            push.token.count <= DeviceToken.maximumBytes, "a device token of more than 256 bytes")
        let digits = Hex.encode(push.token, into: path + RequestWriter.prefix.count)
        writeID(push.id)
        fields.removeAll(keepingCapacity: true)
        fields.append(HeaderField(name: words[0], value: words[1]))
        fields.append(HeaderField(name: words[2], value: words[3]))
        fields.append(HeaderField(name: words[4], value: host))
        fields.append(
            HeaderField(
                name: words[5],
                value: UnsafeBufferPointer(start: path, count: RequestWriter.prefix.count + digits))
        )
        if let token {
            fields.append(HeaderField(name: words[6], value: UnsafeBufferPointer(token)))
        }
        for field in push.template.fields {
            fields.append(HeaderField(name: field.name, value: field.value))
        }
        fields.append(
            HeaderField(
                name: words[7], value: UnsafeBufferPointer(start: id, count: 36),
                neverIndexed: !isFirst))
        let stream = fields.withUnsafeBufferPointer { submit($0, push.template.payload) }
        if stream != nil { isFirst = false }
        return stream
    }

    /// 8-4-4-4-12 in lower case.
    private func writeID(_ halves: (UInt64, UInt64)) {
        var at = 0
        for nibble in 0..<32 {
            if nibble == 8 || nibble == 12 || nibble == 16 || nibble == 20 {
                id[at] = 0x2D
                at += 1
            }
            let half = nibble < 16 ? halves.0 : halves.1
            let shift = UInt64(60 - 4 * (nibble & 15))
            id[at] = Hex.digit(UInt8(truncatingIfNeeded: half >> shift) & 15)
            at += 1
        }
    }
}
