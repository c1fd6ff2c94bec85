/// Counts how many answers of a campaign blame the token, to see when the campaign is to blame.
///
/// A wrong environment makes every token look bad (400 `BadDeviceToken`), a wrong topic likewise
/// (`DeviceTokenNotForTopic`). The breaker opens at half of the first 100 answers, or at a tenth of
/// the latest 1000.
///
/// | answers | of them bad tokens | opens |
/// | --- | --- | --- |
/// | 20 | 20 | no: fewer than 50 could be chance |
/// | 50 | 50 | yes |
/// | 99 | 49 | no |
/// | 100 | 50 | yes |
/// | 1000, then 1000 | 10, then 99 | no |
/// | 1000, then 1000 | 10, then 100 | yes |
package struct FaultTally: Sendable {
    package static let firstAnswers = 100
    package static let window = 1000

    private var answers = 0
    private var faults = 0
    private var isFirst = true
    /// The breaker has opened; it reports that once.
    package private(set) var isOpen = false

    package init() {}

    /// Notes one answer; true when the breaker opens with it.
    package mutating func note(isTokenFault: Bool) -> Bool {
        guard !isOpen else { return false }
        answers += 1
        if isTokenFault { faults += 1 }
        if isFirst {
            isOpen = faults * 2 >= FaultTally.firstAnswers
            if answers >= FaultTally.firstAnswers { restart() }
        } else {
            isOpen = faults * 10 >= FaultTally.window
            if answers >= FaultTally.window { restart() }
        }
        return isOpen
    }

    private mutating func restart() {
        answers = 0
        faults = 0
        isFirst = false
    }
}
