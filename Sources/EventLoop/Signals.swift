internal import CLinux
internal import Glibc

/// Signals as values: blocked in every thread, taken by the one that waits for them.
package enum Signals {
    package static let terminate = SIGTERM
    package static let interrupt = SIGINT

    /// Keeps `signals` from acting by themselves; call before any thread is started.
    package static func block(_ signals: [Int32]) {
        var set = self.set(signals)
        pthread_sigmask(SIG_BLOCK, &set, nil)
        signal(SIGPIPE, SIG_IGN)
    }

    /// Waits at most `nanoseconds` for one of `signals`.
    package static func wait(for signals: [Int32], nanoseconds: Int64) -> Int32? {
        var set = self.set(signals)
        var limit = timespec(
            tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
        let signal = sigtimedwait(&set, nil, &limit)
        return signal > 0 ? signal : nil
    }

    private static func set(_ signals: [Int32]) -> sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        for signal in signals { sigaddset(&set, signal) }
        return set
    }
}
