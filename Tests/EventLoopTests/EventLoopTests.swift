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
}
