internal import Glibc

let program = Program(commands: [
    workerCommand,
    enqueueCommand,
    checkCommand,
    statusCommand,
    resultsCommand,
    healthCommand,
    pauseCommand,
    resumeCommand,
    cancelCommand,
    auditCommand,
    simulatorCommand,
    versionCommand,
])

exit(program.main(Array(CommandLine.arguments.dropFirst()), Terminal.environment()))
