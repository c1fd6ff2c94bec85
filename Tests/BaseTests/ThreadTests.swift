import Glibc
import Testing

@testable import Base

@Suite("Threads")
struct ThreadTests {
    /// Kilobytes of address space, which holds the stacks of threads that nobody joined.
    private func addressSpace() throws -> Int {
        let file = try #require(fopen("/proc/self/statm", "r"))
        defer { fclose(file) }
        var pages = 0
        withUnsafeMutablePointer(to: &pages) { pointer in
            _ = withVaList([pointer]) { vfscanf(file, "%ld", $0) }
        }
        return pages * 4
    }

    @Test("a thread that nobody waits for leaves nothing behind when it has ended")
    func detached() throws {
        func runMany() {
            for _ in 0..<200 {
                let done = Mailbox<Void>(limit: 1)
                _ = Thread("short") { done.add(()) }
                _ = done.take(waitingAtMost: 10_000_000_000)
            }
        }
        runMany()
        let before = try addressSpace()
        for _ in 0..<5 { runMany() }
        // A stack is 8 MB: a thousand of them would be 8 GB.
        let growth = try addressSpace() - before
        #expect(growth < 2_000_000)
    }
}
