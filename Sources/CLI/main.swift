internal import Glibc

let program = Program(commands: [
    workerCommand,
    enqueueCommand,
    checkCommand,
    statusCommand,
    pauseCommand,
    resumeCommand,
    cancelCommand,
    auditCommand,
    simulatorCommand,
    versionCommand,
])

exit(program.main(Array(CommandLine.arguments.dropFirst()), Terminal.environment()))
