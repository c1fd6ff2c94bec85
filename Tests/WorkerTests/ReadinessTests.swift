import Base
import Redis
import Testing

@testable import Worker

@Suite("Readiness of a worker")
struct ReadinessTests {
    private func at(_ seconds: Int) -> Instant {
        Instant(nanoseconds: Nanoseconds.seconds(seconds))
    }

    private func kinds(_ readiness: Readiness, _ seconds: Int) -> [String] {
        readiness.faults(now: at(seconds)).map { "\($0.check.rawValue) \($0.kind)" }
    }

    @Test("it is ready once a write succeeded, for ten seconds")
    func writes() {
        var readiness = Readiness()
        #expect(!readiness.isKnown)
        #expect(kinds(readiness, 0) == ["redis untried"])
        readiness.wrote(now: at(1))
        #expect(readiness.isKnown)
        #expect(kinds(readiness, 1) == [])
        #expect(kinds(readiness, 11) == [])
        #expect(kinds(readiness, 12) == ["redis silent"])
        readiness.wrote(now: at(13))
        #expect(kinds(readiness, 13) == [])
    }

    @Test(
        "what keeps Redis from taking writes is told apart",
        arguments: [
            (
                RedisError(.refused, "OOM command not allowed when used memory > 'maxmemory'."),
                "out_of_memory", "out of memory"
            ),
            (
                RedisError(.refused, "READONLY You can't write against a read only replica."),
                "read_only", "replica"
            ),
            (
                RedisError(
                    .refused, "MISCONF Errors writing to the AOF file: No space left on device"),
                "disk", "disk"
            ),
            (
                RedisError(.refused, "LOADING Redis is loading the dataset in memory"), "loading",
                "loading"
            ),
            (
                RedisError(.refused, "NOREPLICAS Not enough good replicas to write."), "replicas",
                "min-replicas-to-write"
            ),
            (
                RedisError(reply: "NOPERM this user has no permissions", to: "SET peal:a"),
                "rights", "SET peal:a"
            ),
            (
                RedisError(.unreachable, "Redis at 127.0.0.1:1 cannot be reached"), "unreachable",
                "127.0.0.1:1"
            ),
            (
                RedisError(.lost, "Redis at 127.0.0.1:1 did not answer in time"), "unreachable",
                "in time"
            ),
        ])
    func causes(error: RedisError, kind: String, words: String) {
        var readiness = Readiness()
        readiness.wrote(now: at(1))
        readiness.failed(Readiness.probe, error)
        #expect(kinds(readiness, 1) == ["redis \(kind)"])
        let reason = readiness.faults(now: at(1)).first?.reason ?? ""
        #expect(reason.contains(words))
        #expect(reason.contains("Redis"))
        readiness.wrote(now: at(2))
        #expect(kinds(readiness, 2) == [])
    }

    @Test("a thread that waits for Redis counts until it goes on, whatever the probe says")
    func tasks() {
        var readiness = Readiness()
        readiness.wrote(now: at(1))
        let lost = RedisError(.lost, "Redis is lost")
        readiness.failed("exchange", lost)
        readiness.failed("recover", lost)
        readiness.wrote(now: at(2))
        #expect(kinds(readiness, 2) == ["redis unreachable"])
        readiness.worked("exchange")
        #expect(kinds(readiness, 2) == ["redis unreachable"])
        readiness.worked("recover")
        #expect(kinds(readiness, 2) == [])
    }

    @Test("an app in use without a connection counts at its first failure or after five seconds")
    func connections() {
        var readiness = Readiness()
        readiness.wrote(now: at(1))
        func lane(_ connections: Int, _ failure: String? = nil) -> [Readiness.Lane] {
            [
                Readiness.Lane(app: "shop", connections: connections, failure: failure),
                Readiness.Lane(app: "news", connections: 1, failure: nil),
            ]
        }
        readiness.connected([], now: at(1))
        #expect(kinds(readiness, 1) == [])
        readiness.connected(lane(0), now: at(2))
        #expect(kinds(readiness, 2) == [])
        readiness.connected(lane(0), now: at(7))
        #expect(kinds(readiness, 7) == [])
        #expect(kinds(readiness, 8) == ["apns unconnected"])
        readiness.connected(lane(1, "one was refused"), now: at(8))
        #expect(kinds(readiness, 8) == [])
        readiness.connected(lane(0, "refused"), now: at(9))
        #expect(readiness.faults(now: at(9)).map(\.reason) == ["shop: refused"])
    }

    @Test("all reasons come at once, draining too")
    func several() {
        var readiness = Readiness()
        readiness.connected(
            [Readiness.Lane(app: "shop", connections: 0, failure: "refused")], now: at(1))
        readiness.drain()
        #expect(
            kinds(readiness, 1) == ["redis untried", "apns unconnected", "draining draining"])
        #expect(
            StatusReporter.sentence(readiness.faults(now: at(1)))
                == "redis: nothing was written to Redis yet; apns: shop: refused; "
                + "draining: the worker ends; it takes nothing new")
    }

    @Test("each change is told once, six in a row and then one in ten seconds, the last one always")
    func changes() {
        var changes = ReadinessChanges()
        func fault(_ kind: String, _ reason: String = "") -> [Readiness.Fault] {
            [Readiness.Fault(check: .redis, kind: kind, reason: reason)]
        }
        var told: [Int] = []
        func look(_ seconds: Int, _ faults: [Readiness.Fault]) {
            if changes.areNews(faults, now: at(seconds)) { told.append(seconds) }
        }
        look(0, [])
        look(1, [])
        look(2, fault("unreachable", "one"))
        look(3, fault("unreachable", "two"))
        look(4, fault("loading"))
        look(5, [])
        #expect(told == [0, 2, 4, 5])
        // Comes and goes all the time.
        for second in 100..<200 { look(second, second % 2 == 0 ? fault("unreachable") : []) }
        #expect(told.dropFirst(4).prefix(6) == [100, 101, 102, 103, 104, 105])
        #expect((14...16).contains(told.count - 4))
        for second in 200..<221 { look(second, fault("loading")) }
        #expect((200...210).contains(told.last ?? 0))
    }
}
