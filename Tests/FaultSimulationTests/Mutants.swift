/// A mistake in the protocol that the checker must find.
///
/// | mistake | seeds from 1 on until it is found |
/// | --- | --- |
/// | no fence | 29 |
/// | no commit numbers | 2 |
/// | cancel over a live lease | 3 |
/// | one-look recovery | 3 |
/// | counters by increments | 2 |
/// | marking after sending | 1 |
/// | no clamping of leases | 19 |
/// | no replay of finished shards | 30 |
/// | finishing a plan of which a part was lost | 21 |
/// | epoch without nonce | 29 |
/// | no clamping of the pause of claims | 6 |
/// | grants kept over a freeze | 17 |
/// | no clamping of heartbeats | 42 |
/// | a plan without its clearing | 39 |
///
/// Some are survived since another rule stands behind: epochs that may come twice while the nonce
/// is compared, and a late call that clears a plan while its end is checked.
struct Mutant: Sendable {
    let name: String
    /// Scripts with a part of their text and what takes its place; `*` stands for all of them.
    var texts: [(script: String, old: String, new: String)] = []
    /// A frozen worker's clock stands still.
    var stopsClock = false
    /// Marks count before Redis has them.
    var sendsFirst = false
    /// What a worker finished is not written again after a rollback.
    var forgetsFinished = false
    /// Shards are taken back at the first look.
    var looksOnce = false

    static let none = Mutant(name: "none")

    /// The script as this mistake leaves it.
    func rewrite(_ script: String, _ source: String) -> String {
        var result = source
        for text in texts where text.script == script || text.script == "*" {
            precondition(result.contains(text.old), "\(name) does not fit \(script) any more")
            result = result.replacing(text.old, with: text.new)
        }
        return result
    }

    private static let nextEpoch = (
        "*", "return math.max(tonumber(epoch) + 1, now)", "return tonumber(epoch) + 1"
    )

    static let all: [Mutant] = [
        Mutant(
            name: "no fence",
            texts: [
                (
                    "commit",
                    "if h[1] ~= ARGV[3] or h[2] ~= ARGV[4] or h[3] ~= ARGV[5] then",
                    "if false then"
                )
            ]),
        Mutant(
            name: "no commit numbers",
            texts: [
                ("commit", "if stored == number then", "if false then"),
                ("commit", "if stored ~= number - 1 and not", "if false and not"),
            ]),
        Mutant(
            name: "cancel over a live lease",
            texts: [
                (
                    "chore", "if s[1] == 'ready' or s[1] == 'parked' then",
                    "if s[1] == 'ready' or s[1] == 'parked' or s[1] == 'running' then"
                )
            ]),
        Mutant(name: "one-look recovery", looksOnce: true),
        Mutant(
            name: "counters by increments",
            texts: [
                ("commit", "if old == known then", "if true then"),
                (
                    "commit", "olds[#olds + 1], news[#news + 1] = old, new",
                    "olds[#olds + 1], news[#news + 1] = known, new"
                ),
            ]),
        Mutant(name: "marking after sending", sendsFirst: true),
        Mutant(
            name: "no clamping of leases", texts: [("expired", "'(' .. now + lease", "'+inf'")]),
        Mutant(name: "no replay of finished shards", forgetsFinished: true),
        Mutant(
            name: "finishing a plan of which a part was lost",
            texts: [
                (
                    "plan_finish",
                    "if closed ~= ARGV[4] or redis.call('LLEN', campaign .. ':ready') ~= "
                        + "tonumber(ARGV[3]) then", "if false then"
                )
            ]),
        Mutant(
            name: "epoch without nonce", texts: [nextEpoch, ("commit", " or h[3] ~= ARGV[5]", "")]),
        Mutant(
            name: "no clamping of the pause of claims",
            texts: [
                ("*", "return time > now and time <= now + length", "return time > now")
            ]),
        Mutant(name: "grants kept over a freeze", stopsClock: true),
        Mutant(
            name: "no clamping of heartbeats",
            texts: [("expired", "'(' .. now, '+inf'", "'+inf', '+inf'")]),
        Mutant(
            name: "a plan without its clearing",
            texts: [
                (
                    "plan_write", "if plan ~= ARGV[2] or call > last + 1 then",
                    "if plan ~= ARGV[2] then last = 0 end if call > last + 1 then"
                )
            ]),
    ]
}
