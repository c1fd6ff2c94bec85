import Base
import Redis
import TestKit
import Testing

@Suite("Simulated faults of the protocol", .serialized)
struct FaultSimulationTests {
    /// Does something that takes long on a thread of its own.
    static func apart<Value: Sendable>(
        _ body: @escaping @Sendable (RedisConnection) throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            _ = Thread("simulation") {
                continuation.resume(
                    with: Result {
                        let server = try RedisServer()
                        return try body(server.connection(name: "simulation"))
                    })
            }
        }
    }

    /// What some runs had in them, so that nobody takes idle runs for a proof.
    struct Totals: Sendable {
        var runs = 0
        var sends = 0
        var deaths = 0
        var rollbacks = 0
        var failures: [Simulation.Report] = []

        mutating func add(_ report: Simulation.Report) {
            runs += 1
            sends += report.sends
            deaths += report.deaths
            rollbacks += report.rollbacks
            if !report.violations.isEmpty { failures.append(report) }
        }

        mutating func add(_ other: Totals) {
            runs += other.runs
            sends += other.sends
            deaths += other.deaths
            rollbacks += other.rollbacks
            failures += other.failures
        }
    }

    /// Runs seeds, one after the other.
    static func run(
        _ seeds: Range<UInt64>, _ mutant: Mutant = .none, stopsAtFirst: Bool = false
    ) async throws -> Totals {
        try await apart { connection in
            var totals = Totals()
            for seed in seeds {
                totals.add(try Simulation.run(seed, on: connection, mutant: mutant))
                if stopsAtFirst, !totals.failures.isEmpty { break }
            }
            return totals
        }
    }

    @Test("seeds of faults leave an exact account", .timeLimit(.minutes(60)))
    func seeds() async throws {
        let first = Environment.number("PEAL_SIMULATE_FROM") ?? 1
        let count = Environment.number("PEAL_SIMULATE_SEEDS") ?? 200
        let jobs = Environment.number("PEAL_SIMULATE_JOBS") ?? 1
        let part = (count + jobs - 1) / jobs
        var totals = Totals()
        try await withThrowingTaskGroup(of: Totals.self) { group in
            for job in 0..<jobs {
                let start = first + min(count, job * part)
                let end = first + min(count, (job + 1) * part)
                group.addTask { try await Self.run(start..<end) }
            }
            for try await part in group { totals.add(part) }
        }
        print(
            "\(totals.runs) seeds: \(totals.sends) sends, \(totals.deaths) deaths, "
                + "\(totals.rollbacks) rollbacks, \(totals.failures.count) failures")
        for report in totals.failures {
            Issue.record(
                "seed \(report.seed) (\(report.kind)): \(report.violations.joined(separator: "; "))"
            )
        }
    }

    @Test("the same seed gives the same run", arguments: [7, 19, 23] as [UInt64])
    func replay(seed: UInt64) async throws {
        let traces = try await Self.apart { connection in
            try (0..<2).map { _ in try Simulation.run(seed, on: connection).trace }
        }
        #expect(traces[0] == traces[1])
        let other = try await Self.apart { try Simulation.run(seed + 1, on: $0).trace }
        #expect(other != traces[0])
    }

    @Test("every mistake in the protocol is found", arguments: Mutant.all)
    func mutants(mutant: Mutant) async throws {
        let limit = Environment.number("PEAL_SIMULATE_MUTANT_SEEDS") ?? 60
        let totals = try await Self.run(1..<limit + 1, mutant, stopsAtFirst: true)
        let found = totals.failures.first
        print(
            "\(mutant.name): \(totals.runs) seeds, "
                + "\(found?.kind ?? "not found"): \(found?.violations.first ?? "")")
        #expect(found != nil)
    }

    @Test("a seed is told step by step")
    func story() async throws {
        guard let seed = Environment.number("PEAL_SIMULATE_SEED") else { return }
        let wanted = Environment.number("PEAL_SIMULATE_MUTANT").map { Mutant.all[Int($0)] }
        let report = try await Self.apart {
            try Simulation.run(seed, on: $0, mutant: wanted ?? .none, keepsLines: true)
        }
        for line in report.lines { print(line) }
        #expect(report.violations == [])
    }
}
