import Base

/// Times for jobs.
enum WallClockText {
    /// UNIX seconds.
    static func secondsFromNow(_ seconds: Int64) -> String {
        String(WallClock.milliseconds() / 1000 + seconds)
    }
}
