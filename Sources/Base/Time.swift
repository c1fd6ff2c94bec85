internal import Glibc

/// A point on the boot-time clock, in nanoseconds.
///
/// It never goes backwards and goes on while the machine sleeps, so that a process that was frozen
/// sees how long it was away.
package struct Instant: Comparable, Hashable, Sendable {
    package var nanoseconds: Int64

    package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    /// The present moment.
    package static func now() -> Instant {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Instant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }

    /// Whole milliseconds.
    package var milliseconds: Int64 { nanoseconds / 1_000_000 }

    package static func < (left: Instant, right: Instant) -> Bool {
        left.nanoseconds < right.nanoseconds
    }
    package static func - (left: Instant, right: Instant) -> Int64 {
        left.nanoseconds - right.nanoseconds
    }
    package static func + (left: Instant, nanoseconds: Int64) -> Instant {
        Instant(nanoseconds: left.nanoseconds + nanoseconds)
    }
}

/// Lengths of time in nanoseconds, the unit of every duration inside Peal.
package enum Nanoseconds {
    package static func milliseconds(_ value: Int) -> Int64 { Int64(value) * 1_000_000 }
    package static func seconds(_ value: Int) -> Int64 { Int64(value) * 1_000_000_000 }
    package static func seconds(_ value: Double) -> Int64 { Int64(value * 1_000_000_000) }
}

/// The wall clock.
package enum WallClock {
    /// Milliseconds since the UNIX epoch.
    package static func milliseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// RFC 3339 in UTC with milliseconds: `2026-12-01T08:30:00.123Z`.
    package static func rfc3339(milliseconds: Int64) -> String {
        let (days, inDay) = milliseconds.floorDivided(by: 86_400_000)
        let (year, month, day) = civil(days: days)
        let seconds = inDay / 1000
        func two(_ value: Int64) -> String { value < 10 ? "0\(value)" : "\(value)" }
        let fraction = String(1000 + inDay % 1000).dropFirst()
        return "\(year)-\(two(month))-\(two(day))T\(two(seconds / 3600)):\(two(seconds / 60 % 60)):"
            + "\(two(seconds % 60)).\(fraction)Z"
    }

    /// The date of HTTP (RFC 9110 section 5.6.7) in whole seconds: `Tue, 01 Dec 2026 08:30:00 GMT`.
    package static func httpDate(milliseconds: Int64) -> String {
        let (days, inDay) = milliseconds.floorDivided(by: 86_400_000)
        let (year, month, day) = civil(days: days)
        let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
        let months = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ]
        let seconds = inDay / 1000
        func two(_ value: Int64) -> String { value < 10 ? "0\(value)" : "\(value)" }
        let weekday = weekdays[Int(days.floorDivided(by: 7).remainder)]
        return "\(weekday), \(two(day)) \(months[Int(month) - 1]) \(year) \(two(seconds / 3600)):"
            + "\(two(seconds / 60 % 60)):\(two(seconds % 60)) GMT"
    }

    /// Days since 1970-01-01 to a Gregorian date (400-year eras that begin on 1 March).
    static func civil(days: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let shifted = days + 719_468
        let (era, dayOfEra) = shifted.floorDivided(by: 146_097)
        let yearOfEra =
            (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * marchMonth + 2) / 5 + 1
        let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }

    /// A Gregorian date to days since 1970-01-01.
    static func days(year: Int64, month: Int64, day: Int64) -> Int64 {
        let shiftedYear = month <= 2 ? year - 1 : year
        let (era, yearOfEra) = shiftedYear.floorDivided(by: 400)
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }

    /// Milliseconds since the epoch of an RFC 3339 time (`2026-12-01T08:30:00Z`, `…+01:00`, with or
    /// without a fraction), or nil when it is not one.
    package static func parseRFC3339(_ text: String) -> Int64? {
        let bytes = Array(text.utf8)
        func number(_ from: Int, _ length: Int) -> Int64? {
            guard from + length <= bytes.count else { return nil }
            var value: Int64 = 0
            for byte in bytes[from..<from + length] {
                guard (0x30...0x39).contains(byte) else { return nil }
                value = value * 10 + Int64(byte - 0x30)
            }
            return value
        }
        guard bytes.count >= 20, bytes[4] == 0x2D, bytes[7] == 0x2D,
            bytes[10] == 0x54 || bytes[10] == 0x74 || bytes[10] == 0x20, bytes[13] == 0x3A,
            bytes[16] == 0x3A, let year = number(0, 4), let month = number(5, 2),
            let day = number(8, 2), let hour = number(11, 2), let minute = number(14, 2),
            let second = number(17, 2), (1...12).contains(month), (1...31).contains(day),
            hour < 24, minute < 60, second <= 60
        else { return nil }
        let date = days(year: year, month: month, day: day)
        guard civil(days: date) == (year, month, day) else { return nil }
        var index = 19
        var fraction: Int64 = 0
        if bytes[index] == 0x2E {
            index += 1
            var digits = 0
            while index < bytes.count, (0x30...0x39).contains(bytes[index]) {
                if digits < 3 { fraction = fraction * 10 + Int64(bytes[index] - 0x30) }
                digits += 1
                index += 1
            }
            guard digits > 0 else { return nil }
            while digits < 3 {
                fraction *= 10
                digits += 1
            }
        }
        guard index < bytes.count else { return nil }
        var offset: Int64 = 0
        switch bytes[index] {
        case 0x5A, 0x7A:
            guard index + 1 == bytes.count else { return nil }
        case 0x2B, 0x2D:
            guard index + 6 == bytes.count, bytes[index + 3] == 0x3A,
                let hours = number(index + 1, 2), let minutes = number(index + 4, 2), hours < 24,
                minutes < 60
            else { return nil }
            offset = (hours * 60 + minutes) * (bytes[index] == 0x2B ? 60_000 : -60_000)
        default: return nil
        }
        let time = ((date * 24 + hour) * 60 + minute) * 60 + second
        return time * 1000 + fraction - offset
    }
}

extension Int64 {
    /// Quotient rounded down and remainder never negative.
    func floorDivided(by divisor: Int64) -> (quotient: Int64, remainder: Int64) {
        let remainder = ((self % divisor) + divisor) % divisor
        return ((self - remainder) / divisor, remainder)
    }
}
