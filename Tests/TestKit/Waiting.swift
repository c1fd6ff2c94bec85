internal import Base

/// What kept a test from going on; `description` is a sentence.
package struct TestKitError: Error, CustomStringConvertible, Sendable {
    package let description: String
    package init(_ description: String) { self.description = description }
}

/// The bound of a wait that names none, reached only when a test fails.
package let defaultWait = Duration.seconds(20)

/// Waits until `condition` holds; other tests run meanwhile.
///
/// `what` completes the sentence "waited in vain until …"; the condition is asked every 5 ms.
package func eventually(
    _ what: String, within limit: Duration = defaultWait,
    _ condition: () async throws -> Bool
) async throws {
    let end = ContinuousClock.now + limit
    while try await !condition() {
        guard ContinuousClock.now < end else {
            throw TestKitError("waited \(limit) in vain until \(what)")
        }
        try await Task.sleep(for: .milliseconds(5))
    }
}

/// Waits until `value` answers something and returns that.
package func eventually<Value>(
    value what: String, within limit: Duration = defaultWait,
    _ value: () async throws -> Value?
) async throws -> Value {
    var found: Value?
    try await eventually(what, within: limit) {
        found = try await value()
        return found != nil
    }
    guard let found else { throw TestKitError("waited in vain for \(what)") }
    return found
}

/// Waits like `eventually`, on the calling thread, for code that is not async.
package func blockUntil(
    _ what: String, within limit: Duration = defaultWait, _ condition: () throws -> Bool
) throws {
    let end = ContinuousClock.now + limit
    while try !condition() {
        guard ContinuousClock.now < end else {
            throw TestKitError("waited \(limit) in vain until \(what)")
        }
        Base.Thread.sleep(nanoseconds: 2_000_000)
    }
}
