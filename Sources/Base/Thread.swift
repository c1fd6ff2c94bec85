internal import Glibc

/// An operating-system thread with a name.
///
/// It runs to its end also when nobody holds this object any more.
package final class Thread: @unchecked Sendable {
    private final class Box {
        let name: String
        let body: @Sendable () -> Void
        init(_ name: String, _ body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }

    private var handle = pthread_t()
    private let joined = Lock(false)

    /// Starts a thread that runs `body`; `name` shows in `top -H` (15 characters at most).
    package init(_ name: String, _ body: @escaping @Sendable () -> Void) {
        let box = Unmanaged.passRetained(Box(name, body))
        let status = pthread_create(
            &handle, nil,
            { context in
                guard let context else { return nil }
                let box = Unmanaged<Box>.fromOpaque(context).takeRetainedValue()
                Thread.nameCurrent(box.name)
                box.body()
                return nil
            }, box.toOpaque())
        precondition(status == 0, "the system refused a new thread (error \(status))")
    }

    /// A thread that nobody waits for frees its stack by itself.
    deinit { joined.withLock { if !$0 { pthread_detach(handle) } } }

    /// Names the calling thread through procfs, since Glibc's module hides the GNU call.
    private static func nameCurrent(_ name: String) {
        let file = open("/proc/thread-self/comm", O_WRONLY)
        guard file >= 0 else { return }
        let bytes = Array(name.utf8.prefix(15))
        _ = write(file, bytes, bytes.count)
        close(file)
    }

    /// Waits for the end of the thread.
    package func join() {
        joined.withLock { done in
            guard !done else { return }
            pthread_join(handle, nil)
            done = true
        }
    }

    /// Puts the calling thread to sleep.
    ///
    /// For threads that may block, never for a loop thread.
    package static func sleep(nanoseconds: Int64) {
        guard nanoseconds > 0 else { return }
        var wanted = timespec(
            tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
        var left = timespec()
        while clock_nanosleep(CLOCK_MONOTONIC, 0, &wanted, &left) == EINTR { wanted = left }
    }
}
