internal import Glibc

/// A value that several threads may touch, one at a time.
///
/// It stands on `pthread_mutex_t`, since ThreadSanitizer reports false races on
/// `Synchronization.Mutex` (Swift 6.3).
package final class Lock<Value>: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private var value: Value

    package init(_ value: sending Value) {
        self.value = value
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    package func withLock<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value)
    }
}

/// A queue between threads: any thread adds, one or more threads wait and take all that is there.
///
/// `limit` bounds what may wait; `add` answers false beyond it.
package final class Mailbox<Message: Sendable>: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let condition: UnsafeMutablePointer<pthread_cond_t>
    private var messages: [Message] = []  // guarded by mutex
    private var closed = false  // guarded by mutex
    private let limit: Int

    package init(limit: Int) {
        self.limit = limit
        mutex = .allocate(capacity: 1)
        condition = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        condition.initialize(to: pthread_cond_t())
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(condition, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    /// Adds a message; false when the mailbox is full or closed.
    @discardableResult
    package func add(_ message: Message) -> Bool {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        guard !closed, messages.count < limit else { return false }
        messages.append(message)
        pthread_cond_signal(condition)
        return true
    }

    /// Takes all messages; waits at most `nanoseconds` for the first one.
    package func take(waitingAtMost nanoseconds: Int64) -> [Message] {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        if messages.isEmpty && !closed && nanoseconds > 0 {
            var until = timespec()
            clock_gettime(CLOCK_MONOTONIC, &until)
            let sum = Int64(until.tv_nsec) + nanoseconds
            until.tv_sec += Int(sum / 1_000_000_000)
            until.tv_nsec = Int(sum % 1_000_000_000)
            while messages.isEmpty && !closed {
                if pthread_cond_timedwait(condition, mutex, &until) == ETIMEDOUT { break }
            }
        }
        let taken = messages
        messages = []
        return taken
    }

    /// Wakes every waiting thread; later messages are refused, what waits may still be taken.
    package func close() {
        pthread_mutex_lock(mutex)
        closed = true
        pthread_cond_broadcast(condition)
        pthread_mutex_unlock(mutex)
    }

    package var isClosed: Bool {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return closed
    }
}
