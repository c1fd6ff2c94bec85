internal import Glibc

let program = Program(commands: [
    simulatorCommand,
    versionCommand,
])

exit(program.main(Array(CommandLine.arguments.dropFirst()), Terminal.environment()))
