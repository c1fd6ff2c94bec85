internal import Base

/// What a simulator is told to do wrong: rules in order, and settings.
///
/// The first rule whose condition holds for a request and whose limit is not used up decides. Its
/// text form is JSON (`Script.read`).
package struct Script: Sendable, Equatable {
    /// Rules of one script.
    package static let ruleLimit = 1000
    /// Bytes of its text.
    package static let byteLimit = 1 << 20

    package var rules: [ScriptRule] = []
    package var settings = ScriptSettings()

    package init() {}

    /// Whether rules look at how often a token was seen.
    var countsTokens: Bool { rules.contains { $0.condition.firstOfToken != nil } }
}

/// One rule: when, what, and how often at most.
package struct ScriptRule: Sendable, Equatable {
    package var condition = ScriptCondition()
    package var deed: Deed
    /// Nil for no limit.
    package var limit: Int?
}

/// Whole numbers from `from` to `until`, each `every`-th.
///
/// | from | until | every | numbers |
/// | --- | --- | --- | --- |
/// | 1 | none | 1 | 1, 2, 3, … |
/// | 4 | 6 | 1 | 4, 5, 6 |
/// | 3 | none | 3 | 3, 6, 9, … |
/// | 2 | 9 | 5 | 2, 7 |
package struct NumberRange: Sendable, Equatable {
    package var from: Int
    /// Included; nil for no end.
    package var until: Int?
    package var every: Int

    package init(from: Int = 1, until: Int? = nil, every: Int = 1) {
        self.from = from
        self.until = until
        self.every = max(1, every)
    }

    package func contains(_ number: Int) -> Bool {
        number >= from && number <= until ?? Int.max && (number - from) % every == 0
    }
}

/// What must hold for a request: all that is given.
package struct ScriptCondition: Sendable, Equatable {
    /// A share of all device tokens, the same ones for the same seed.
    package struct TokenShare: Sendable, Equatable {
        package let share: Double
        package let seed: UInt64

        func contains(_ token: ArraySlice<UInt8>) -> Bool {
            let hash = Population.hash(token, seed: seed)
            return Double(hash >> 11) * (1.0 / 9_007_199_254_740_992.0) < share
        }
    }

    /// Hexadecimal digits, compared without regard to case.
    package var token: [UInt8]?
    package var tokenPrefix: [UInt8]?
    package var tokenShare: TokenShare?
    /// The first so many requests of each device token.
    package var firstOfToken: Int?
    package var topic: [UInt8]?
    /// The connection's number, from 1.
    package var connection: NumberRange?
    /// The request's number on its connection, from 1.
    package var request: NumberRange?
    /// The request's number of all since the script began, from 1.
    package var total: NumberRange?
    /// Nanoseconds since the script began, the end not included.
    package var time: Range<Int64>?

    package init() {}

    package func holds(for arrival: ScriptArrival) -> Bool {
        if let connection, !connection.contains(arrival.connection) { return false }
        if let request, !request.contains(arrival.request) { return false }
        if let total, !total.contains(arrival.total) { return false }
        if let time, !time.contains(arrival.time) { return false }
        if let firstOfToken, arrival.ofToken > firstOfToken { return false }
        if let topic, !topic.elementsEqual(arrival.topic) { return false }
        if let token, !Self.matches(arrival.token, token, whole: true) { return false }
        if let tokenPrefix, !Self.matches(arrival.token, tokenPrefix, whole: false) {
            return false
        }
        if let tokenShare, !tokenShare.contains(arrival.token) { return false }
        return true
    }

    private static func matches(
        _ token: ArraySlice<UInt8>, _ wanted: [UInt8], whole: Bool
    ) -> Bool {
        guard whole ? token.count == wanted.count : token.count >= wanted.count else {
            return false
        }
        return zip(token, wanted).allSatisfy { byte, wanted in
            ((0x41...0x5A).contains(byte) ? byte | 0x20 : byte) == wanted
        }
    }
}

/// What conditions look at.
package struct ScriptArrival: Sendable {
    /// As it stood in the path; empty without one.
    package var token: ArraySlice<UInt8>
    package var topic: ArraySlice<UInt8>
    package var connection: Int
    /// On its connection, from 1.
    package var request: Int
    /// Of all since the script began, from 1; set by `ScriptState`.
    package var total = 0
    /// Of its device token since the script began, from 1; set by `ScriptState`.
    package var ofToken = 0
    /// Nanoseconds since the script began.
    package var time: Int64

    package init(
        token: ArraySlice<UInt8>, topic: ArraySlice<UInt8>, connection: Int, request: Int,
        time: Int64
    ) {
        self.token = token
        self.topic = topic
        self.connection = connection
        self.request = request
        self.time = time
    }
}
