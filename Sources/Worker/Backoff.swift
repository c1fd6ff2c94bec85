internal import Base
internal import Redis
internal import Telemetry

/// Repeats a call to Redis until it succeeds, with growing, jittered pauses.
///
/// | failures in a row | 1 | 2 | 3 | 4 | 5 | 6 and more |
/// | --- | --- | --- | --- | --- | --- | --- |
/// | pause at most (ms) | 50 | 100 | 200 | 400 | 800 | 1600 |
///
/// The pause is drawn between half of that and all of it.
struct Backoff {
    static func limit(failures: Int) -> Int64 {
        Nanoseconds.milliseconds(50 << min(max(failures, 1) - 1, 5))
    }

    private var failures = 0
    private var outage = Outage()
    private let task: String
    private let readiness: Lock<Readiness>?

    /// - `task`: what the thread does, for the log line.
    /// - `readiness`: where the trouble counts, if it does.
    init(_ task: String, _ readiness: Lock<Readiness>? = nil) {
        self.task = task
        self.readiness = readiness
    }

    /// Calls `body` until it succeeds; nil when `isStopped` first.
    ///
    /// An error that no wait and no repair ends is thrown.
    mutating func repeating<Value>(
        _ log: Log, isStopped: () -> Bool, _ body: () throws(RedisError) -> Value
    ) throws(RedisError) -> Value? {
        while true {
            do throws(RedisError) {
                let value = try body()
                succeeded(log)
                return value
            } catch {
                guard error.isWaitedOut else { throw error }
                pause(failed(error, log), isStopped)
                if isStopped() { return nil }
            }
        }
    }

    /// Notes a failure and returns the pause before the next try.
    mutating func failed(_ error: RedisError, _ log: Log) -> Int64 {
        failures += 1
        readiness?.withLock { $0.failed(task, error) }
        switch outage.failed(now: Instant.now()) {
        case .first?:
            log.warning(
                "redis_trouble", "\(error); trying again until it works",
                [("task", .text(task))])
        case .again(let count, let seconds)?:
            log.warning(
                "redis_trouble", "still: \(error)",
                [
                    ("task", .text(task)), ("failures", .number(count)),
                    ("seconds", .number(seconds)),
                ])
        case nil: break
        }
        let limit = Backoff.limit(failures: failures)
        return Int64.random(in: limit / 2...limit)
    }

    mutating func succeeded(_ log: Log) {
        if failures > 0 { readiness?.withLock { $0.worked(task) } }
        failures = 0
        if let seconds = outage.succeeded(now: Instant.now()) {
            log.info(
                "redis_back", "Redis answers again",
                [("task", .text(task)), ("seconds", .number(seconds))])
        }
    }

    /// Sleeps in short parts, so that a stop is noticed.
    private func pause(_ length: Int64, _ isStopped: () -> Bool) {
        let end = Instant.now() + length
        while !isStopped(), Instant.now() < end {
            Thread.sleep(nanoseconds: min(end - Instant.now(), Nanoseconds.milliseconds(100)))
        }
    }
}
