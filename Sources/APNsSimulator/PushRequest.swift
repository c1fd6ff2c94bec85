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

    /// Notes a header field by the places of its name and value; unknown ones are ignored, as APNs does.
    package mutating func note(name: Range<Int>, value: Range<Int>) {
        switch name.count {
        case 5: note(name, Name.path, value, \.path)
        case 7:
            note(name, Name.method, value, \.method)
            note(name, Name.id, value, \.id)
        case 10: note(name, Name.topic, value, \.topic)
        case 13:
            note(name, Name.authorization, value, \.authorization)
            note(name, Name.priority, value, \.priority)
        case 14: note(name, Name.pushType, value, \.pushType)
        case 15: note(name, Name.expiration, value, \.expiration)
        case 16: note(name, Name.collapseID, value, \.collapseID)
        default: break
        }
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

    private mutating func note(
        _ name: Range<Int>, _ known: [UInt8], _ value: Range<Int>,
        _ place: WritableKeyPath<PushRequest, Range<Int>?>
    ) {
        guard equals(name, known) else { return }
        if self[keyPath: place] != nil { hasDuplicates = true }
        self[keyPath: place] = value
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
