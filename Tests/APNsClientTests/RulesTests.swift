import APNs
import Base
import EventLoop
import HTTP2
import Testing

@testable import APNsClient

@Suite("Rules of connections")
struct RulesTests {
    private func at(_ seconds: Int) -> Instant {
        Instant(nanoseconds: Nanoseconds.seconds(seconds))
    }

    @Test(
        "a PING is sent after silence, and its answer decides",
        arguments: [
            // in flight since, heard, sent, expected
            (nil, 941, 941, Liveness.Decision.nothing), (nil, 940, 940, .ping),
            (nil, 100, 990, .nothing), (980, 986, 980, .nothing), (980, 985, 980, .ping),
            (999, 950, 999, .nothing),
        ] as [(Int?, Int, Int, Liveness.Decision)])
    func silence(oldest: Int?, heard: Int, sent: Int, expected: Liveness.Decision) {
        var liveness = Liveness(now: at(0))
        liveness.received(now: at(heard))
        liveness.lastSent = at(sent)
        let decision = liveness.decide(
            now: at(1000), oldest: oldest.map(at), settings: PoolSettings())
        #expect(decision == expected)
        guard decision == .ping else { return }
        let next = { (liveness: inout Liveness, now: Int) in
            liveness.decide(now: at(now), oldest: nil, settings: PoolSettings())
        }
        #expect(next(&liveness, 1009) == .nothing)
        var answered = liveness
        answered.received(now: at(1009))
        #expect(next(&liveness, 1010) == .dead)
        #expect(next(&answered, 1010) == .nothing)
    }

    @Test("connections lost together count as one failure; repeated failures wait longer")
    func reconnecting() {
        var rule = ReconnectRule(connections: 3)
        for _ in 0..<3 {
            #expect(rule.mayOpen(at(10)))
            rule.opening(at(10))
        }
        for _ in 0..<3 { rule.failed(at(11), fraction: 1) }
        #expect(rule.failures == 1)
        #expect(!rule.mayOpen(at(11)))
        #expect(rule.mayOpen(at(12)))
        rule.opening(at(12))
        #expect(!rule.mayOpen(at(12)), "one a second after the first round")
        rule.failed(at(12), fraction: 1)
        #expect(rule.failures == 2)
        #expect(!rule.mayOpen(at(13)))
        #expect(rule.mayOpen(at(14)))
        rule.proven()
        rule.failed(at(20), fraction: 0)
        #expect(rule.failures == 1)
    }

    @Test("connections spread over the addresses; those that failed come last")
    func addresses() throws {
        let list = try (1...3).flatMap {
            try SocketAddress.resolve(host: "127.0.0.\($0)", port: 443)
        }
        var book = AddressBook()
        var random = SeededRandom(seed: 3)
        var counts: [SocketAddress: Int] = [:]
        for _ in 0..<9 {
            let order = book.order(list, now: at(1), deadTime: 60, random: &random)
            let first = try #require(order.first)
            book.opened(first)
            counts[first, default: 0] += 1
        }
        #expect(list.map { counts[$0] } == [3, 3, 3])
        book.failed(list[1], now: at(1))
        let minute = Nanoseconds.seconds(60)
        let dead = book.order(list, now: at(60), deadTime: minute, random: &random)
        #expect(dead.last == list[1])
        book.closed(list[1])
        let later = book.order(list, now: at(61), deadTime: minute, random: &random)
        #expect(later.first == list[1], "forgiven after a minute, and the least used")
    }

    @Test("requests in flight are found oldest first, through any order of endings")
    func flights() throws {
        let table = FlightTable(capacity: 4)
        let template = makeTemplate()
        let places = try (0..<4).map {
            try #require(table.add(template, tag: UInt64($0), at: at($0)))
        }
        #expect(table.add(template, tag: 9, at: at(9)) == nil)
        table.remove(places[1])
        #expect(table.first == places[0])
        table.giveUp(places[0])
        #expect(table.first == places[2])
        #expect(table.count == 3, "given up, but its stream has not ended")
        table.remove(places[0])
        table.remove(places[3])
        #expect(table.first == places[2])
        let again = try #require(table.add(template, tag: 7, at: at(7)))
        var tags: [UInt64] = []
        table.forEach { tags.append(table[$0].tag) }
        #expect(tags.sorted() == [2, 7])
        table.remove(places[2])
        #expect(table.first == again)
    }

    @Test("a header has the fields of Apple's page; apns-id is indexed once")
    func header() {
        let writer = RequestWriter(authority: "api.push.apple.com")
        writer.setToken(nil)
        var lines: [[String]] = []
        var indexed: [Bool] = []
        for _ in 0..<2 {
            [UInt8](repeating: 0xAB, count: 3).withUnsafeBytes { token in
                let push = Push(
                    template: makeTemplate(), token: token,
                    id: (0x0123_4567_89AB_8DEF, 0x8123_4567_89AB_CDEF), tag: 1)
                _ = writer.write(push) { fields, body in
                    lines.append(
                        fields.map {
                            text($0.name, $0.nameCount) + ": " + text($0.value, $0.valueCount)
                        })
                    indexed.append(!(fields.last?.neverIndexed ?? true))
                    #expect(String(decoding: body, as: UTF8.self) == "{}")
                    return 1
                }
            }
        }
        #expect(
            lines[0] == [
                ":method: POST", ":scheme: https", ":authority: api.push.apple.com",
                ":path: /3/device/ababab", "apns-topic: com.example.app", "apns-push-type: alert",
                "apns-priority: 10", "apns-expiration: 0", "apns-collapse-id: news",
                "apns-id: 01234567-89ab-8def-8123-456789abcdef",
            ])
        #expect(lines[1] == lines[0])
        #expect(indexed == [true, false])
    }

    private func text(_ start: UnsafePointer<UInt8>, _ count: Int) -> String {
        String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    }

    private func makeTemplate() -> PushTemplate {
        PushTemplate(
            topic: "com.example.app", pushType: .alert, priority: 10, expiration: 0,
            collapseID: "news", payload: Array("{}".utf8))
    }
}
