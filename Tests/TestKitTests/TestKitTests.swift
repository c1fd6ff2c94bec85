import Redis
import TestKit
import Testing

@Suite("TestKit", .timeLimit(.minutes(1)))
struct TestKitTests {
    @Test("a child process has its own environment, its words in files and its exit code")
    func child() async throws {
        let program = "echo \"$GREETING\"; echo bad >&2; exit 7"
        let result = try await ChildProcess.run(
            "sh", ["-c", program], environment: ["GREETING": "hello"])
        #expect(result.end == .exit(7))
        #expect(result.output == "hello\n")
        #expect(result.errors == "bad\n")
    }

    @Test("a child process can be signalled, and a wait for one that goes on throws")
    func signal() async throws {
        let process = try ChildProcess("sleep", ["60"])
        await #expect(throws: TestKitError.self) {
            try await process.wait(within: .milliseconds(20))
        }
        #expect(process.isRunning)
        process.send(15)
        #expect(try await process.wait() == .signal(15))
    }

    @Test("a child process ends with its owner")
    func owner() async throws {
        var process: ChildProcess? = try ChildProcess("sleep", ["60"])
        let number = try #require(process?.processID)
        process = nil
        let line = try await ChildProcess.run("sh", ["-c", "kill -0 \(number)"])
        #expect(line.end != .exit(0))
    }

    @Test("a program that does not exist is an error or an exit code, not a hang")
    func missing() async throws {
        let end = try? await ChildProcess.run("no-such-program-here", []).end
        #expect(end != .exit(0))
    }

    @Test("the built program is found and says its version")
    func peal() async throws {
        let process = try ChildProcess.peal(["--help"])
        #expect(try await process.wait() == .exit(0))
        #expect(process.output.contains("peal"))
    }

    @Test("a directory is there as long as its owner")
    func directory() throws {
        var directory: TemporaryDirectory? = try TemporaryDirectory()
        let path = try #require(try directory?.write("a.txt", "text"))
        #expect(directory?.text("a.txt") == "text")
        let other = try TemporaryDirectory()
        try other.write("b.txt", "other")
        #expect(directory?.exists("b.txt") == false)
        directory = nil
        #expect(!TemporaryDirectory.isFile(path))
    }

    @Test("a Redis server keeps its data over a restart only when it is append-only")
    func restart() throws {
        for appendOnly in [true, false] {
            let server = try RedisServer(
                appendOnly: appendOnly, options: ["--appendfsync", "always"])
            try server.command("SET", "a", "1")
            server.kill()
            #expect(throws: RedisError.self) { try server.command("GET", "a") }
            try server.restart()
            #expect(try server.command("GET", "a").string == (appendOnly ? "1" : nil))
        }
    }

    @Test("a frozen server answers nothing and goes on when it is thawed")
    func freeze() throws {
        let server = try RedisServer()
        let connection = server.connection()
        try connection.command("SET", "a", "1")
        server.freeze()
        #expect(throws: RedisError.self) {
            try connection.command([Array("GET".utf8), Array("a".utf8)], within: 50_000_000)
        }
        server.thaw()
        #expect(try connection.command("GET", "a").string == "1")
    }
}
