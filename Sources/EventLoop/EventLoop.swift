package import Base
internal import CLinux
internal import Glibc

/// What the loop tells the owner of a watched descriptor.
package struct Readiness: OptionSet, Sendable {
    package let rawValue: UInt32
    package init(rawValue: UInt32) { self.rawValue = rawValue }
    package static let readable = Readiness(rawValue: 1)
    package static let writable = Readiness(rawValue: 2)
    /// Error or hang-up; reading or writing will say which.
    package static let failed = Readiness(rawValue: 4)
}

/// The owner of a watched descriptor.
package protocol EventHandler: AnyObject {
    func ready(_ readiness: Readiness)
}

/// A system call that failed.
package struct SystemError: Error, CustomStringConvertible, Sendable {
    package let number: Int32
    package let action: String
    package init(_ action: String, number: Int32 = errno) {
        self.action = action
        self.number = number
    }
    package var description: String { "\(action): \(String(cString: strerror(number)))" }
}

/// One thread that waits on sockets and timers and owns everything they touch.
///
/// 1. Watches descriptors (epoll, level-triggered) and calls their handlers.
/// 2. Runs timers and, while `isTicking`, the tick handler once every `tick`.
/// 3. Runs closures that other threads `submit`.
///
/// While ticking the loop sleeps to the next tick before it polls, so that one wake-up serves many
/// answers; otherwise it wakes for each event at once. Everything but `submit` and `stop` is for
/// the loop's own thread only, which is checked.
package final class EventLoop: @unchecked Sendable {
    /// Events taken from the kernel in one poll.
    private static let eventLimit = 256

    /// The time at the start of this turn (loop only).
    package private(set) var now = Instant.now()
    /// Whether the tick handler runs (loop only).
    package var isTicking = false { didSet { if isTicking && !oldValue { nextTick = now } } }
    /// Called every `tick` while `isTicking` (loop only).
    package var tickHandler: (() -> Void)?
    /// When the loop last began a turn; other threads may ask, to see that it is alive.
    package var lastTurn: Instant { turned.withLock { $0 } }

    private let name: String
    private let tick: Int64
    private let epoll: Int32
    private let wakeUp: Int32
    private var handlers: [Int32: any EventHandler] = [:]
    private var timers = TimerHeap()
    private var nextTick = Instant(nanoseconds: 0)
    private var thread: pthread_t?
    private let turned = Lock(Instant.now())
    private let inbox = Lock<(work: [@Sendable () -> Void], stopped: Bool)>(([], false))

    /// - `tick`: nanoseconds between two calls of the tick handler, at least 0.1 ms.
    package init(name: String, tick: Int64 = 1_000_000) throws {
        self.name = name
        self.tick = max(tick, 100_000)
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        wakeUp = eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK))
        guard epoll >= 0, wakeUp >= 0 else { throw SystemError("no event loop") }
        _ = peal_epoll_ctl(epoll, EPOLL_CTL_ADD, wakeUp, EPOLLIN.rawValue)
    }

    deinit {
        close(epoll)
        close(wakeUp)
    }

    /// Runs the loop on a new thread and returns that thread.
    package func start() -> Thread { Thread(name) { self.run() } }

    /// Runs until `stop`.
    package func run() {
        thread = pthread_self()
        defer { thread = nil }
        var events = [epoll_event](repeating: epoll_event(), count: EventLoop.eventLimit)
        while true {
            now = Instant.now()
            turned.withLock { $0 = now }
            let (work, stopped) = inbox.withLock { box in
                defer { box.work.removeAll(keepingCapacity: false) }
                return (box.work, box.stopped)
            }
            for item in work { item() }
            if stopped { return }
            poll(&events, timeout: 0)
            for body in timers.due(at: now) { body() }
            if isTicking, now >= nextTick {
                tickHandler?()
                nextTick = nextTick + tick
                if nextTick < now { nextTick = now + tick }
            }
            wait(&events)
        }
    }

    /// Ends the loop after its present turn.
    ///
    /// Any thread.
    package func stop() {
        inbox.withLock { $0.stopped = true }
        wake()
    }

    /// Runs `work` on the loop's thread.
    ///
    /// Any thread.
    package func submit(_ work: @escaping @Sendable () -> Void) {
        inbox.withLock { $0.work.append(work) }
        wake()
    }

    /// Stops the program when called off the loop's thread.
    package func preconditionOnLoop() {
        precondition(
            thread.map { pthread_equal($0, pthread_self()) != 0 } ?? true,
            "called from another thread than the one of loop \(name)")
    }

    /// Watches `descriptor`; the loop keeps the handler until `unwatch` (loop only).
    package func watch(_ descriptor: Int32, _ handler: any EventHandler, writing: Bool = false) {
        handlers[descriptor] = handler
        let interest = EPOLLIN.rawValue | (writing ? EPOLLOUT.rawValue : 0)
        let result = peal_epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, interest)
        precondition(result == 0, "descriptor \(descriptor) cannot be watched (error \(-result))")
    }

    /// Also reports, or no longer, when `descriptor` can be written (loop only).
    package func setWriting(_ descriptor: Int32, _ writing: Bool, reading: Bool = true) {
        let interest = (reading ? EPOLLIN.rawValue : 0) | (writing ? EPOLLOUT.rawValue : 0)
        _ = peal_epoll_ctl(epoll, EPOLL_CTL_MOD, descriptor, interest)
    }

    package func unwatch(_ descriptor: Int32) {
        guard handlers.removeValue(forKey: descriptor) != nil else { return }
        _ = peal_epoll_ctl(epoll, EPOLL_CTL_DEL, descriptor, 0)
    }

    /// Runs `body` once at `moment` or soon after (loop only).
    @discardableResult
    package func schedule(at moment: Instant, _ body: @escaping () -> Void) -> TimerID {
        timers.add(moment, body)
    }

    @discardableResult
    package func schedule(after nanoseconds: Int64, _ body: @escaping () -> Void) -> TimerID {
        timers.add(now + nanoseconds, body)
    }

    package func cancel(_ timer: TimerID) { timers.cancel(timer) }

    private func wake() {
        var one: UInt64 = 1
        _ = write(wakeUp, &one, 8)
    }

    private func wait(_ events: inout [epoll_event]) {
        // The poll of this turn may have swallowed the wake-up of work that came after the turn
        // took
        // its work; without this look the loop would sleep on it.
        guard inbox.withLock({ $0.work.isEmpty && !$0.stopped }) else { return }
        if isTicking {
            var until = nextTick
            if let timer = timers.next, timer < until { until = timer }
            Thread.sleep(nanoseconds: until - Instant.now())
            return
        }
        guard let timer = timers.next else {
            poll(&events, timeout: -1)
            return
        }
        let left = timer - Instant.now()
        let milliseconds = left <= 0 ? 0 : min((left + 999_999) / 1_000_000, 60_000)
        poll(&events, timeout: Int32(milliseconds))
    }

    private func poll(_ events: inout [epoll_event], timeout: Int32) {
        let count = epoll_wait(epoll, &events, Int32(EventLoop.eventLimit), timeout)
        guard count > 0 else { return }
        if timeout != 0 { now = Instant.now() }
        for index in 0..<Int(count) {
            let descriptor = withUnsafePointer(to: &events[index]) { peal_epoll_data($0) }
            if descriptor == wakeUp {
                var value: UInt64 = 0
                _ = read(wakeUp, &value, 8)
                continue
            }
            guard let handler = handlers[descriptor] else { continue }
            let bits = events[index].events
            var readiness: Readiness = []
            if bits & EPOLLIN.rawValue != 0 { readiness.insert(.readable) }
            if bits & EPOLLOUT.rawValue != 0 { readiness.insert(.writable) }
            if bits & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 { readiness.insert(.failed) }
            handler.ready(readiness)
        }
    }
}
