internal import Glibc

let program = Program(commands: [
    versionCommand
])

exit(program.main(Array(CommandLine.arguments.dropFirst()), Terminal.environment()))
