import Base
import Testing

@testable import Worker

@Suite("Tables of the worker")
struct TablesTests {
    @Test(
        "the number of marks follows the table in its comment",
        arguments: [
            (1, 50, 16), (100, 50, 86), (1500, 50, 1290), (1500, 500, 1965), (6000, 50, 4096),
            (0, 0, 16), (1e9, 1000, 4096),
        ])
    func marks(rate: Double, latency: Double, marks: Int) {
        let wanted = MarkTarget.marks(ratePerSecond: rate, latencySeconds: latency / 1000)
        #expect(wanted == marks)
    }

    @Test(
        "pauses after failures follow the table in their comment",
        arguments: [
            (1, 50), (2, 100), (3, 200), (4, 400), (5, 800), (6, 1600), (7, 1600), (1000, 1600),
            (0, 50),
        ])
    func pauses(failures: Int, milliseconds: Int) {
        #expect(Backoff.limit(failures: failures) == Nanoseconds.milliseconds(milliseconds))
    }
}
