/// A mistake in the protocol that the checker must find.
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

    static let all: [Mutant] = common + rare

    /// Not found in 60 seeds, so not among `all`: what it breaks needs a freeze in a short moment.
    static let elusive = Mutant(name: "grants kept over a freeze", stopsClock: true)

    /// Found within 60 seeds.
    static let common: [Mutant] = [
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
    ]

    /// Take more seeds.
    static let rare: [Mutant] = [
        Mutant(
            name: "epoch without nonce", texts: [nextEpoch, ("commit", " or h[3] ~= ARGV[5]", "")]),
        Mutant(
            name: "no clamping of the pause of claims",
            texts: [
                ("*", "return time > now and time <= now + length", "return time > now")
            ]),
    ]
}
