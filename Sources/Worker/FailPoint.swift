internal import Base

/// Places where tests kill the process, named in the variable `PEAL_FAIL_POINT`.
///
/// `name:N` kills it when it comes to the place for the Nth time, `recipient:<hex>` when it is
/// about to send to that token.
///
/// | name | where |
/// | --- | --- |
/// | `after_take`, `after_register` | a job is on the own list; it has become a campaign |
/// | `in_plan`, `before_plan_close` | a part of a plan is written; all of it is |
/// | `after_plan_finish` | the campaign may be sent |
/// | `before_claim`, `after_claim` | a shard is asked for; it is claimed and nothing marked |
/// | `before_send` | a mark is confirmed, its first byte not written |
/// | `before_commit` | answers came and are not committed |
/// | `after_commit` | Redis has a commit, the worker has not heard of it |
enum FailPoint {
    /// A place and how often it may still be passed.
    private struct Armed {
        let name: String
        var left: Int
    }

    private static let variable = ProcessEnvironment.value("PEAL_FAIL_POINT")
    private static let isArmed = variable != nil
    private static let armed = Lock(parse(variable ?? ""))
    /// The token at which the worker dies.
    private static let poison: [UInt8]? = variable.flatMap { name in
        name.hasPrefix("recipient:") ? Hex.decode(name.utf8.dropFirst(10)) : nil
    }

    private static func parse(_ text: String) -> Armed {
        let parts = text.split(separator: ":")
        guard parts.count == 2, let number = Int(parts[1]) else {
            return Armed(name: text, left: 1)
        }
        return Armed(name: String(parts[0]), left: number)
    }

    /// Ends the process at once, as `kill -9` would, when `name` is armed; `condition` is only
    /// looked at then.
    static func reached(_ name: String, if condition: @autoclosure () -> Bool = true) {
        guard isArmed, condition() else { return }
        let isHit = armed.withLock { armed in
            guard armed.name == name else { return false }
            armed.left -= 1
            return armed.left == 0
        }
        if isHit { ProcessEnvironment.killSelf() }
    }

    /// A recipient is about to be sent to.
    static func reached(recipient token: UnsafeRawBufferPointer) {
        guard isArmed else { return }
        reached("before_send")
        if let poison, token.elementsEqual(poison) { ProcessEnvironment.killSelf() }
    }
}
