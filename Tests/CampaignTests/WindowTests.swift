import Base
import Campaign
import Testing

@Suite("Recipient windows")
struct WindowTests {
    /// The recipients of a table in order: tokens as they are, invalid texts with a `!` before.
    static func contents(_ table: RecipientTable) -> [[UInt8]] {
        (0..<table.count).map { (table.isInvalid($0) ? [33] : []) + Array(table.content($0)) }
    }

    @Test("tokens of every length and texts that are none come back in their order")
    func roundTrip() throws {
        var writer = WindowWriter()
        var expected: [[UInt8]] = []
        for length in 1...256 {
            let token = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ length) }
            token.withUnsafeBytes { writer.append(token: $0) }
            expected.append(token)
            let text = Array("no token \(length)".utf8)
            text.withUnsafeBytes { writer.append(invalid: $0) }
            expected.append([33] + text)
        }
        [UInt8]().withUnsafeBytes { writer.append(invalid: $0) }
        expected.append([33])
        #expect(writer.count == expected.count)
        let (bytes, count) = writer.take()
        #expect(count == expected.count)
        #expect(writer.count == 0)
        let table = try #require(RecipientTable(windows: [bytes, [], bytes]))
        #expect(Self.contents(table) == expected + expected)
    }

    @Test("of a text that is no token only the beginning is kept")
    func longText() throws {
        var writer = WindowWriter()
        [UInt8](repeating: 65, count: 5000).withUnsafeBytes { writer.append(invalid: $0) }
        let table = try #require(RecipientTable(windows: [writer.take().bytes]))
        #expect(table.content(0).count == WindowWriter.invalidLimit)
    }

    @Test("a window is full at 1000 recipients or 64 KB")
    func limits() {
        var writer = WindowWriter()
        let token = [UInt8](repeating: 1, count: 32)
        while writer.hasRoom(for: 32) { token.withUnsafeBytes { writer.append(token: $0) } }
        #expect(writer.count == WindowWriter.recipientLimit)
        _ = writer.take()
        let large = [UInt8](repeating: 1, count: 256)
        while writer.hasRoom(for: 256) { large.withUnsafeBytes { writer.append(token: $0) } }
        #expect(writer.bytes.count <= WindowWriter.byteLimit)
        #expect(writer.bytes.count > WindowWriter.byteLimit - 258)
    }

    @Test(
        "a broken window is refused",
        arguments: [
            [2, 1, 0, 65], [0], [1, 1], [1, 2, 0, 65], [1, 1, 0, 65, 9], [1, 1, 0x80],
            [1, 255, 127],
        ] as [[UInt8]])
    func broken(window: [UInt8]) {
        #expect(RecipientTable(windows: [window]) == nil)
        #expect(RecipientTable(windows: [[1, 1, 0, 65], window]) == nil)
    }

    @Test("the first position of a token wins, and invalid texts are never duplicates")
    func duplicates() throws {
        var writer = WindowWriter()
        for text in ["a", "b", "a", "ab", "b", "a"] {
            Array(text.utf8).withUnsafeBytes { writer.append(token: $0) }
        }
        for _ in 0..<2 { Array("a".utf8).withUnsafeBytes { writer.append(invalid: $0) } }
        let table = try #require(RecipientTable(windows: [writer.take().bytes]))
        #expect(table.duplicates() == [2, 4, 5])
        #expect(RecipientTable(windows: [])?.duplicates() == [])
    }
}

@Suite("Plan builder")
struct PlanBuilderTests {
    @Test(
        "the number of shards follows the table in its comment",
        arguments: [
            (0, 1), (1, 1), (2500, 1), (2501, 2), (20_000, 8), (100_000, 32), (1_000_000, 50),
        ])
    func shards(recipients: Int, shards: Int) {
        #expect(PlanBuilder.shards(recipients, 20_000) == shards)
        #expect(PlanBuilder(expected: recipients, seed: 1).shards == shards)
    }

    @Test("a token always goes to the same shard, shards are of even size, nothing is lost")
    func placing() throws {
        var plan = PlanBuilder(expected: 20_000, shardSize: 2000, seed: 7)
        var windows: [PlanBuilder.Window] = []
        for index in 0..<20_000 {
            let token = withUnsafeBytes(of: UInt64(index % 10_000)) { Array($0) }
            token.withUnsafeBytes { plan.add(token: $0) }
            windows += plan.takeFull()
        }
        Array("zz".utf8).withUnsafeBytes { plan.add(invalid: $0) }
        windows += plan.takeRest()
        #expect(plan.takeRest().isEmpty)
        #expect(plan.total == 20_001)
        #expect(windows.reduce(0) { $0 + $1.count } == 20_001)
        var duplicates = 0
        for shard in 0..<plan.shards {
            let mine = windows.filter { $0.shard == shard }
            let table = try #require(RecipientTable(windows: mine.map(\.bytes)))
            #expect(table.count == mine.reduce(0) { $0 + $1.count })
            #expect((1700...2300).contains(table.count))
            duplicates += table.duplicates().count
        }
        #expect(duplicates == 10_000)
    }

    @Test("open windows stay below their limit of memory; the fullest are written first")
    func memory() {
        let limit = 256 * 1024
        var plan = PlanBuilder(expected: 20, shardSize: 1, seed: 3, openLimit: limit)
        var token = [UInt8](repeating: 0, count: 256)
        var open = 0
        var most = 0
        var taken = 0
        for index in 0..<5000 {
            withUnsafeBytes(of: UInt32(index)) { token.replaceSubrange(0..<4, with: $0) }
            token.withUnsafeBytes { plan.add(token: $0) }
            open += token.count + 2
            guard index % 50 == 49 else { continue }
            most = max(most, open)
            for window in plan.takeFull() {
                open -= window.bytes.count - 1
                taken += window.count
                #expect(window.count > 20)
            }
        }
        #expect(PlanBuilder.openLimit == 32 * 1024 * 1024)
        #expect(most > limit)
        #expect(most <= limit + 50 * 258)
        #expect(taken > 0)
        #expect(plan.takeRest().reduce(taken) { $0 + $1.count } == 5000)
    }
}
