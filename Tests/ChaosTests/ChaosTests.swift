import Testing

/// Faults of real processes in the middle of campaigns, one after another, so that their figures
/// are not each other's noise.
@Suite("Chaos", .serialized)
struct ChaosTests {}
