/// The parts of a request that the checks look at: places in one block of bytes.
package struct PushRequest {
    package let memory: [UInt8]
    package private(set) var method: Range<Int>?
    package private(set) var path: Range<Int>?
    package private(set) var authorization: Range<Int>?
    package private(set) var id: Range<Int>?
    package private(set) var topic: Range<Int>?
    package private(set) var pushType: Range<Int>?
    package private(set) var priority: Range<Int>?
    package private(set) var expiration: Range<Int>?
    package private(set) var collapseID: Range<Int>?
    /// A field that may stand once stood twice.
    package private(set) var hasDuplicates = false
    package let body: [UInt8]
    /// Bytes of the body as received, kept in `body` or not.
    package let bodyCount: Int

    package init(memory: [UInt8], body: [UInt8], bodyCount: Int) {
        self.memory = memory
        self.body = body
        self.bodyCount = bodyCount
    }

    /// Notes a header field by the places of its name and value; unknown ones are ignored, as
    /// APNs does.
    package mutating func note(name: Range<Int>, value: Range<Int>) {
        var repeated = false
        func take(_ value: Range<Int>, into place: inout Range<Int>?) {
            repeated = place != nil
            place = value
        }
        switch name.count {
        case 5: if equals(name, Name.path) { take(value, into: &path) }
        case 7:
            if equals(name, Name.id) {
                take(value, into: &id)
            } else if equals(name, Name.method) {
                take(value, into: &method)
            }
        case 10: if equals(name, Name.topic) { take(value, into: &topic) }
        case 13:
            if equals(name, Name.authorization) {
                take(value, into: &authorization)
            } else if equals(name, Name.priority) {
                take(value, into: &priority)
            }
        case 14: if equals(name, Name.pushType) { take(value, into: &pushType) }
        case 15: if equals(name, Name.expiration) { take(value, into: &expiration) }
        case 16: if equals(name, Name.collapseID) { take(value, into: &collapseID) }
        default: break
        }
        if repeated { hasDuplicates = true }
    }

    /// The device token in the path: empty when it is missing, nil when the path is another one.
    package var token: Range<Int>? {
        guard let path else { return nil }
        let prefix = Name.devicePath
        guard path.count >= prefix.count - 1,
            memory[path].starts(with: prefix[..<(prefix.count - 1)])
        else { return nil }
        if path.count == prefix.count - 1 { return path.upperBound..<path.upperBound }
        let token = path.lowerBound + prefix.count..<path.upperBound
        return memory[token.lowerBound - 1] == 0x2F ? token : nil
    }

    package func text(_ range: Range<Int>) -> String {
        String(decoding: memory[range], as: UTF8.self)
    }

    func equals(_ range: Range<Int>, _ bytes: [UInt8]) -> Bool {
        range.count == bytes.count
            && memory.withUnsafeBufferPointer { all in
                for index in 0..<bytes.count where all[range.lowerBound + index] != bytes[index] {
                    return false
                }
                return true
            }
    }

    private enum Name {
        static let path = Array(":path".utf8)
        static let method = Array(":method".utf8)
        static let authorization = Array("authorization".utf8)
        static let id = Array("apns-id".utf8)
        static let topic = Array("apns-topic".utf8)
        static let pushType = Array("apns-push-type".utf8)
        static let priority = Array("apns-priority".utf8)
        static let expiration = Array("apns-expiration".utf8)
        static let collapseID = Array("apns-collapse-id".utf8)
        static let devicePath = Array("/3/device/".utf8)
    }
}
