/// The recipients that were in flight when a worker died: one of them may have ended it.
///
/// They are sent before all others and in small company, so that a recipient that ends workers is
/// found and the rest is delivered. A recipient's level is the number of deaths in which it was in
/// flight; only those that were alone pass level 3.
///
/// | level | sent together at most | the worker's other shards |
/// | --- | --- | --- |
/// | 1 | 256 | send on |
/// | 2 | 16 | wait |
/// | 3, 4 | 1 | wait |
/// | 5 | rejected as Poison by the recovery | |
struct Probe {
    /// From this level on nothing else of the worker may be in flight: it would be suspected, too.
    static let solitude = 2

    private var levels: [[Int]] = []

    static func company(level: Int) -> Int {
        switch level {
        case 1: 256
        case 2: 16
        default: 1
        }
    }

    /// Levels by recipient, as Redis keeps them: records of a 32-bit index, little-endian, and a
    /// byte.
    static func read(_ bytes: [UInt8]) -> [Int: Int] {
        var result: [Int: Int] = [:]
        bytes.withUnsafeBytes { raw in
            var at = 0
            while at + 5 <= raw.count {
                let index = UInt32(
                    littleEndian: raw.loadUnaligned(fromByteOffset: at, as: UInt32.self))
                result[Int(index)] = Int(raw[at + 4])
                at += 5
            }
        }
        return result
    }

    var isEmpty: Bool { levels.isEmpty }
    /// The highest level that waits; 0 without any.
    var level: Int { levels.count - 1 }

    mutating func add(_ index: Int, level: Int) {
        while levels.count <= level { levels.append([]) }
        levels[level].append(index)
    }

    /// Takes those that are sent together next, the most suspect first.
    mutating func next(limit: Int) -> [Int] {
        guard let last = levels.indices.last else { return [] }
        let count = min(Probe.company(level: last), max(limit, 1), levels[last].count)
        let taken = Array(levels[last].suffix(count))
        levels[last].removeLast(count)
        while levels.last?.isEmpty == true { levels.removeLast() }
        return taken
    }

    mutating func removeAll() { levels.removeAll() }
}
