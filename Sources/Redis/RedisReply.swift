internal import CHiredis

/// One reply of Redis (RESP2).
package enum RedisReply: Sendable, Equatable {
    case null
    case integer(Int64)
    /// A bulk string or a status line.
    case bytes([UInt8])
    case array([RedisReply])
    /// An error inside an array (a top-level error is thrown).
    case error(String)

    package var string: String? {
        switch self {
        case .bytes(let bytes): String(decoding: bytes, as: UTF8.self)
        case .integer(let value): String(value)
        default: nil
        }
    }

    package var bytes: [UInt8]? {
        if case .bytes(let bytes) = self { bytes } else { nil }
    }

    /// The number, also when Redis keeps it as text.
    package var integer: Int64? {
        switch self {
        case .integer(let value): value
        case .bytes: string.flatMap { Int64($0) }
        default: nil
        }
    }

    package var array: [RedisReply]? {
        if case .array(let items) = self { items } else { nil }
    }

    /// An array of field, value, field, value … as a dictionary.
    package var fields: [String: String] {
        guard let items = array else { return [:] }
        var result: [String: String] = [:]
        var index = 0
        while index + 1 < items.count {
            if let name = items[index].string { result[name] = items[index + 1].string ?? "" }
            index += 2
        }
        return result
    }

    /// Converts hiredis' reply tree.
    init(_ reply: UnsafePointer<redisReply>) {
        switch reply.pointee.type {
        case REDIS_REPLY_INTEGER: self = .integer(reply.pointee.integer)
        case REDIS_REPLY_STRING, REDIS_REPLY_STATUS: self = .bytes(RedisReply.content(reply))
        case REDIS_REPLY_ERROR:
            self = .error(String(decoding: RedisReply.content(reply), as: UTF8.self))
        case REDIS_REPLY_ARRAY:
            var items: [RedisReply] = []
            items.reserveCapacity(reply.pointee.elements)
            for index in 0..<reply.pointee.elements {
                guard let element = reply.pointee.element[index] else { continue }
                items.append(RedisReply(UnsafePointer(element)))
            }
            self = .array(items)
        default: self = .null
        }
    }

    private static func content(_ reply: UnsafePointer<redisReply>) -> [UInt8] {
        guard let text = reply.pointee.str else { return [] }
        return Array(UnsafeRawBufferPointer(start: text, count: Int(reply.pointee.len)))
    }
}

/// hiredis' reply reader: bytes in, replies out.
final class ReplyReader {
    private let reader: UnsafeMutablePointer<redisReader>?

    init() { reader = redisReaderCreate() }
    deinit { redisReaderFree(reader) }

    func feed(_ bytes: UnsafeRawBufferPointer) {
        guard let start = bytes.baseAddress, bytes.count > 0 else { return }
        redisReaderFeed(reader, start.assumingMemoryBound(to: CChar.self), bytes.count)
    }

    /// The next complete reply, or nil when more bytes are needed.
    func next() throws(RedisError) -> RedisReply? {
        var raw: UnsafeMutableRawPointer?
        guard redisReaderGetReply(reader, &raw) == REDIS_OK else {
            throw RedisError(.lost, "Redis answered with something that is not its protocol")
        }
        guard let raw else { return nil }
        defer { freeReplyObject(raw) }
        return RedisReply(UnsafePointer(raw.assumingMemoryBound(to: redisReply.self)))
    }
}
