import APNsClient
import Base
import Testing

@Suite("Reconnecting")
struct ReconnectPolicyTests {
    @Test(
        "the pause at most doubles from one second to sixty",
        arguments: zip([0, 1, 2, 3, 4, 5, 6, 7, 30], [0, 1, 2, 4, 8, 16, 32, 60, 60]))
    func table(failures: Int, seconds: Int) {
        #expect(ReconnectPolicy.limit(failures: failures) == Nanoseconds.seconds(seconds))
    }
}
