/// Finds the known name that a misspelt one most likely means.
package enum Nearest {
    /// The known name with the fewest edits, or nil when none is near.
    ///
    /// Near is at most a third of the longer name's letters, and at least one. Letters of either
    /// case and `-`, `_` count as equal; two swapped neighbours count as one edit.
    package static func name(to name: String, among known: some Sequence<String>) -> String? {
        var best: (name: String, distance: Int)?
        let wanted = fold(name)
        for candidate in known {
            let other = fold(candidate)
            let distance = edits(wanted, other)
            guard distance <= max(1, max(wanted.count, other.count) / 3) else { continue }
            if let best, best.distance <= distance { continue }
            best = (candidate, distance)
        }
        return best?.name
    }

    /// A half sentence for an error message: ` (did you mean "topic"?)`, or nothing.
    package static func hint(for name: String, among known: some Sequence<String>) -> String {
        Nearest.name(to: name, among: known).map { " (did you mean \"\($0)\"?)" } ?? ""
    }

    private static func fold(_ name: String) -> [UInt8] {
        name.lowercased().utf8.prefix(64).map { $0 == UInt8(ascii: "-") ? UInt8(ascii: "_") : $0 }
    }

    /// Insertions, deletions, replacements and swaps of neighbours between two texts.
    private static func edits(_ left: [UInt8], _ right: [UInt8]) -> Int {
        var beforeLast: [Int] = []
        var last = Array(0...right.count)
        for (i, a) in left.enumerated() {
            var row = [i + 1]
            for (j, b) in right.enumerated() {
                var cost = min(last[j] + (a == b ? 0 : 1), last[j + 1] + 1, row[j] + 1)
                if i > 0, j > 0, a == right[j - 1], b == left[i - 1] {
                    cost = min(cost, beforeLast[j - 1] + 1)
                }
                row.append(cost)
            }
            beforeLast = last
            last = row
        }
        return last[right.count]
    }
}
