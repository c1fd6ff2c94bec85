internal import Base

/// Places where tests kill the process, named in the variable `PEAL_FAIL_POINT`.
enum FailPoint {
    private static let armed = ProcessEnvironment.value("PEAL_FAIL_POINT")
    /// The token at which the worker dies, armed by `recipient:<hex>`.
    private static let poison: [UInt8]? = armed.flatMap { name in
        name.hasPrefix("recipient:") ? Hex.decode(name.utf8.dropFirst(10)) : nil
    }

    /// Ends the process at once, as `kill -9` would, when `name` is armed.
    static func reached(_ name: String) {
        if armed == name { ProcessEnvironment.killSelf() }
    }

    /// A recipient is about to be sent to.
    static func reached(recipient token: UnsafeRawBufferPointer) {
        guard let poison else { return }
        if token.elementsEqual(poison) { ProcessEnvironment.killSelf() }
    }
}
