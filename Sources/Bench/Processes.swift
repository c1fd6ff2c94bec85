internal import Glibc

/// Child processes and what they cost.
enum Processes {
    /// CPU seconds, user and system, of this process.
    static func ownCPU() -> Double {
        var usage = rusage()
        getrusage(__rusage_who_t(0), &usage)  // RUSAGE_SELF
        return seconds(usage)
    }

    /// Starts a program found on PATH; its output goes to `/dev/null` or to `output`.
    static func start(_ words: [String], output: String = "/dev/null") -> pid_t? {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) }
        arguments.append(nil)
        defer { for argument in arguments { free(argument) } }
        var path: UnsafeMutablePointer<CChar>? = strdup(
            "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        defer { free(path) }
        var child = pid_t()
        let status = withUnsafeMutablePointer(to: &path) { first in
            var environment = [first.pointee, nil]
            return posix_spawnp(&child, words[0], &actions, nil, &arguments, &environment)
        }
        return status == 0 ? child : nil
    }

    /// Waits for the end of a child; its CPU seconds, or nil when it failed.
    static func wait(_ child: pid_t) -> Double? {
        var status: Int32 = 0
        var usage = rusage()
        guard wait4(child, &status, 0, &usage) == child, status == 0 else { return nil }
        return seconds(usage)
    }

    /// Ends a child in good order.
    static func end(_ child: pid_t) {
        kill(child, SIGTERM)
        var status: Int32 = 0
        waitpid(child, &status, 0)
    }

    private static func seconds(_ usage: rusage) -> Double {
        func part(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
        return part(usage.ru_utime) + part(usage.ru_stime)
    }
}
