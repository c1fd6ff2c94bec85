import Campaign
import Testing

@Suite("Retry policy")
struct RetryPolicyTests {
    static let second: Int64 = 1_000_000_000

    @Test(
        "delays follow the table in the policy's comment",
        arguments: [
            (.tooManyRequests, 1, 0, 2), (.tooManyRequests, 2, 0, 4), (.tooManyRequests, 3, 0, 8),
            (.tooManyRequests, 5, 0, 32), (.tooManyRequests, 6, nil, nil),
            (.serverError, 1, 900, 1800), (.serverError, 2, 900, 2700),
            (.serverError, 3, 900, 4500), (.serverError, 4, nil, nil), (.elsewhere, 1, 0, 0),
            (.elsewhere, 3, 0, 0), (.elsewhere, 4, nil, nil), (.unknown, 1, 0, 2),
            (.unknown, 2, nil, nil),
        ] as [(RetryPolicy.Kind, Int, Int64?, Int64?)])
    func table(kind: RetryPolicy.Kind, tries: Int, low: Int64?, high: Int64?) {
        let policy = RetryPolicy()
        #expect(policy.delay(kind, tries: tries, random: 0) == low.map { $0 * Self.second })
        #expect(policy.delay(kind, tries: tries, random: 1) == high.map { $0 * Self.second })
    }

    @Test("a delay is capped, never more than nine tries are made, and Retry-After is a floor")
    func limits() {
        var policy = RetryPolicy()
        policy.maxTries = 100
        #expect(policy.delay(.tooManyRequests, tries: 9, random: 1) == 300 * Self.second)
        #expect(policy.delay(.tooManyRequests, tries: 10, random: 1) == nil)
        let floor = policy.delay(.tooManyRequests, tries: 1, random: 0.5, retryAfter: 30)
        #expect(floor == 30 * Self.second)
        policy.serverErrorDelay = 0
        #expect(policy.delay(.serverError, tries: 1, random: 1) == 0)
    }
}
