/// How far a commit has to be stored before what it marks is sent.
package enum Durability: Sendable, Equatable {
    /// Redis has answered it.
    case none
    /// So many replicas have acknowledged it, too.
    case replicas(Int)

    /// A setting that cannot be used; the description says what to write instead.
    package struct Unusable: Error, Equatable, CustomStringConvertible {
        package let description: String
    }

    /// The most replicas that can be asked for.
    package static let limit = 8

    /// Reads `none` or `replicas:N`.
    package init(parsing text: String) throws(Unusable) {
        if text == "none" {
            self = .none
            return
        }
        if text == "aof" {
            throw Unusable(
                description: "needs WAITAOF of Redis 7.2, which this version does not use; write "
                    + "replicas:N, with appendfsync always where the disk counts")
        }
        let prefix = "replicas:"
        guard text.hasPrefix(prefix), let number = Int(text.dropFirst(prefix.count)),
            (1...Durability.limit).contains(number)
        else {
            throw Unusable(
                description: "is no durability; write none or replicas:N with N from 1 to "
                    + "\(Durability.limit)")
        }
        self = .replicas(number)
    }

    /// The number of replicas to wait for.
    var replicas: Int {
        switch self {
        case .none: 0
        case .replicas(let number): number
        }
    }
}
