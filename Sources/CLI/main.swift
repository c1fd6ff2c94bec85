internal import Glibc

let program = Program(commands: [
    checkCommand,
    simulatorCommand,
    versionCommand,
])

exit(program.main(Array(CommandLine.arguments.dropFirst()), Terminal.environment()))
