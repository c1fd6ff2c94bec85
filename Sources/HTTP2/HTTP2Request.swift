/// A request as a server session received it.
///
/// All bytes stand in one block, so that a request costs no allocation once its object was used
/// before. Confined to the thread of its session.
package final class HTTP2Request {
    /// Bodies beyond this are counted but not kept.
    package static let bodyLimit = 16 * 1024
    /// Header fields beyond this are dropped; nghttp2 bounds their bytes at 64 KiB.
    package static let fieldLimit = 128

    /// Where a header field's name and value stand in `memory`: the value follows the name.
    package struct Field {
        package let start: Int
        package let nameCount: Int
        package let valueCount: Int
        package var name: Range<Int> { start..<start + nameCount }
        package var value: Range<Int> { start + nameCount..<start + nameCount + valueCount }
    }

    package internal(set) var stream: Int32 = 0
    /// Header fields in the order they came, pseudo fields too, names in lower case.
    package private(set) var fields: [Field] = []
    /// Names and values of the fields.
    package private(set) var memory: [UInt8] = []
    package private(set) var body: [UInt8] = []
    /// Bytes of the body as received, kept or not.
    package private(set) var bodyCount = 0

    package init() {}

    package func add(_ name: some Collection<UInt8>, _ value: some Collection<UInt8>) {
        guard fields.count < HTTP2Request.fieldLimit else { return }
        fields.append(
            Field(start: memory.count, nameCount: name.count, valueCount: value.count))
        memory.append(contentsOf: name)
        memory.append(contentsOf: value)
    }

    package func addBody(_ bytes: some Collection<UInt8>) {
        bodyCount += bytes.count
        let kept = min(bytes.count, HTTP2Request.bodyLimit - body.count)
        if kept > 0 { body.append(contentsOf: bytes.prefix(kept)) }
    }

    func clear() {
        fields.removeAll(keepingCapacity: true)
        memory.removeAll(keepingCapacity: true)
        body.removeAll(keepingCapacity: true)
        bodyCount = 0
    }
}
