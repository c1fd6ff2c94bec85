import Base
import EventLoop
import Testing

@Suite("Event loop")
struct EventLoopTests {
    @Test("a loop that is stopped from its own thread ends", .timeLimit(.minutes(1)))
    func stopsFromWithin() throws {
        for _ in 0..<20 {
            let loop = try EventLoop(name: "test")
            let thread = loop.start()
            loop.submit { loop.stop() }
            thread.join()
        }
    }

    @Test("work that is submitted while a turn runs is done", .timeLimit(.minutes(1)))
    func nested() throws {
        let loop = try EventLoop(name: "test")
        let count = Lock(0)
        @Sendable func again(_ left: Int) {
            count.withLock { $0 += 1 }
            if left > 1 { loop.submit { again(left - 1) } } else { loop.stop() }
        }
        let thread = loop.start()
        loop.submit { again(1000) }
        thread.join()
        #expect(count.withLock { $0 } == 1000)
    }

    @Test("no work of another thread is slept on", .timeLimit(.minutes(1)))
    func fromOutside() throws {
        let loop = try EventLoop(name: "test")
        let thread = loop.start()
        let done = Mailbox<Int>(limit: 10)
        var received = 0
        for number in 0..<2000 {
            loop.submit { done.add(number) }
            received += done.take(waitingAtMost: Nanoseconds.seconds(10)).count
        }
        #expect(received == 2000)
        loop.stop()
        thread.join()
    }

    @Test("timers run in the order of their times, cancelled ones never", .timeLimit(.minutes(1)))
    func timers() throws {
        let loop = try EventLoop(name: "test")
        let order = Lock<[Int]>([])
        let thread = loop.start()
        loop.submit {
            let start = loop.now
            for delay in [30, 10, 20, 0, 25] {
                loop.schedule(at: start + Nanoseconds.milliseconds(delay)) {
                    order.withLock { $0.append(delay) }
                    #expect(loop.now >= start + Nanoseconds.milliseconds(delay))
                }
            }
            let first = loop.schedule(after: Nanoseconds.milliseconds(15)) { Issue.record("ran") }
            let second = loop.schedule(after: Nanoseconds.milliseconds(22)) { Issue.record("ran") }
            loop.cancel(first)
            loop.schedule(after: Nanoseconds.milliseconds(20)) { loop.cancel(second) }
            loop.schedule(after: Nanoseconds.milliseconds(40)) { loop.stop() }
        }
        thread.join()
        #expect(order.withLock { $0 } == [0, 10, 20, 25, 30])
    }

    @Test("while ticking the handler runs once a tick, beside timers", .timeLimit(.minutes(1)))
    func ticking() throws {
        let loop = try EventLoop(name: "test", tick: Nanoseconds.milliseconds(2))
        let counts = Lock((ticks: 0, timers: 0))
        let thread = loop.start()
        let start = Instant.now()
        loop.submit {
            loop.tickHandler = {
                let ticks = counts.withLock { counts in
                    counts.ticks += 1
                    return counts.ticks
                }
                if ticks == 5 {
                    loop.schedule(after: 0) { counts.withLock { $0.timers += 1 } }
                }
                if ticks == 20 {
                    loop.isTicking = false
                    loop.schedule(after: Nanoseconds.milliseconds(20)) { loop.stop() }
                }
            }
            loop.isTicking = true
        }
        thread.join()
        #expect(counts.withLock { $0.ticks } == 20)
        #expect(counts.withLock { $0.timers } == 1)
        #expect(Instant.now() - start >= Nanoseconds.milliseconds(38 + 20))
    }

    @Test("work of several threads is done in each thread's order", .timeLimit(.minutes(1)))
    func manyThreads() throws {
        let loop = try EventLoop(name: "test")
        let seen = Lock<[[Int]]>([[], [], []])
        let thread = loop.start()
        let threads = (0..<3).map { number in
            Thread("submit") {
                for item in 0..<500 {
                    loop.submit { seen.withLock { $0[number].append(item) } }
                }
            }
        }
        for thread in threads { thread.join() }
        loop.submit { loop.stop() }
        thread.join()
        #expect(seen.withLock { $0 } == Array(repeating: Array(0..<500), count: 3))
    }
}
