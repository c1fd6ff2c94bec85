internal import Base
internal import FoundationEssentials
internal import Glibc

/// Starts processes that die with this one.
///
/// `setpriv --pdeathsig` sees to it also when the tests crash. The kernel means the thread that
/// started the process, so one thread that never ends starts them all.
enum Spawner {
    private static let work: Mailbox<@Sendable () -> Void> = {
        let work = Mailbox<@Sendable () -> Void>(limit: 1000)
        _ = Base.Thread("spawner") {
            while true { for job in work.take(waitingAtMost: 60_000_000_000) { job() } }
        }
        return work
    }()
    private static let guardian = "/usr/bin/setpriv"

    /// Starts `command` with standard output and error in files; the process id.
    static func spawn(
        _ command: [String], environment: [String: String], output: String, errors: String
    ) throws -> pid_t {
        var words = command
        if FileManager.default.isExecutableFile(atPath: guardian) {
            words = [guardian, "--pdeathsig", "KILL", "--"] + command
        }
        let started = Mailbox<(pid: pid_t, status: Int32)>(limit: 1)
        let line = words
        work.add { started.add(start(line, environment, output, errors)) }
        guard let (pid, status) = started.take(waitingAtMost: 10_000_000_000).first else {
            throw TestKitError("\(command[0]) was not started in time")
        }
        guard status == 0 else {
            throw TestKitError("\(command[0]) cannot be started (error \(status))")
        }
        return pid
    }

    private static func start(
        _ command: [String], _ environment: [String: String], _ output: String, _ errors: String
    ) -> (pid: pid_t, status: Int32) {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        let flags = O_WRONLY | O_CREAT | O_APPEND
        posix_spawn_file_actions_addopen(&actions, 1, output, flags, 0o600)
        posix_spawn_file_actions_addopen(&actions, 2, errors, flags, 0o600)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        sigfillset(&signals)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        var arguments = command.map { strdup($0) } + [nil]
        var variables = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for text in arguments + variables { free(text) } }
        var pid: pid_t = 0
        let status = posix_spawnp(
            &pid, command[0], &actions, &attributes, &arguments, &variables)
        return (pid, status)
    }
}
