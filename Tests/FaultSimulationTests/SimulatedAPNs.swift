import APNs
import APNsClient
import Base
import Campaign

@testable import Worker

/// APNs as far as the protocol sees it: it takes, refuses, delays, and loses answers.
final class SimulatedAPNs {
    /// How often each recipient was accepted.
    private(set) var accepted: [Int: Int] = [:]
    /// Recipients whose answer 410 reached their worker.
    private(set) var gone: [Int: Int] = [:]
    private let world: World

    init(_ world: World) { self.world = world }

    enum Answer { case accepted, gone, tooMany(Int64), refused }

    /// Some recipients are always gone.
    static func isGone(_ recipient: Int) -> Bool { recipient % 13 == 5 }

    /// Processes one request that arrived.
    func process(_ recipient: Int) -> Answer {
        if SimulatedAPNs.isGone(recipient) { return .gone }
        let number = world.pick(0...99)
        if number < 3 { return .refused }
        if number < 8 { return .tooMany(0) }
        if number < 9 { return .tooMany(7) }
        accepted[recipient, default: 0] += 1
        world.note("accepted \(recipient)")
        return .accepted
    }

    func goneWasTold(_ recipient: Int) { gone[recipient, default: 0] += 1 }
}

/// The connection of one worker to APNs and the runs that feed it.
final class SimulatedLane: RunLane {
    let profile: AppProfile
    let isCredentialRefused = false
    /// Requests under way at most.
    private static let streamLimit = 12
    private unowned let worker: SimulatedWorker
    private let marks: Int
    private var runs: [(number: Int, active: ActiveRun)] = []
    private var turn = 0
    private var flights: [Int: Flight] = [:]
    private var nextFlight = 0

    private struct Flight {
        let run: Int
        let index: Int
        let recipient: Int
        let sentAt: Instant
        var isProcessed = false
    }

    init(_ worker: SimulatedWorker, _ profile: AppProfile, marks: Int) {
        self.worker = worker
        self.profile = profile
        self.marks = marks
    }

    func add(_ number: Int, _ active: ActiveRun) { runs.append((number, active)) }

    func remove(_ number: Int) {
        for (other, active) in runs where other == number {
            worker.simulation.history.ended(active, of: worker)
        }
        runs.removeAll { $0.number == number }
    }

    func markTarget(of active: ActiveRun, settings: WorkerSettings) -> Int { marks }
    func note(milliseconds: Int) {}

    /// Sends a few notifications, runs in turn; their number.
    func tick(_ now: Instant, limit: Int) -> Int {
        let room = max(0, min(limit, SimulatedLane.streamLimit - flights.count))
        var left = room
        var misses = 0
        while left > 0, misses < runs.count {
            turn = (turn + 1) % runs.count
            let (number, active) = runs[turn]
            guard let table = active.recipients, let index = active.run.nextToSend(now: now)
            else {
                misses += 1
                continue
            }
            misses = 0
            left -= 1
            send(number, active, index, Recipient.read(table.content(index)))
            guard worker.isAlive else { break }
        }
        return room - left
    }

    private func send(_ number: Int, _ active: ActiveRun, _ index: Int, _ recipient: Int) {
        let (simulation, world) = (worker.simulation, worker.world)
        simulation.history.sent(recipient, active.run.fence, worker)
        nextFlight += 1
        let id = nextFlight
        flights[id] = Flight(run: number, index: index, recipient: recipient, sentAt: world.now)
        world.after(milliseconds: world.pick(2...20)) { [weak self] in self?.arrive(id) }
        if simulation.faults.diesAtSend(worker) { worker.kill("at a send") }
    }

    private func arrive(_ id: Int) {
        guard let flight = flights[id], !flight.isProcessed else { return }
        flights[id]?.isProcessed = true
        let world = worker.world
        let answer = worker.simulation.apns.process(flight.recipient)
        worker.post(milliseconds: world.pick(10...250)) { [self] in
            guard flights.removeValue(forKey: id) != nil else { return }
            if case .gone = answer { worker.simulation.apns.goneWasTold(flight.recipient) }
            end(flight, outcome(answer))
        }
    }

    private func outcome(_ answer: SimulatedAPNs.Answer) -> PushOutcome {
        func answered(_ status: Int, _ reason: String) -> Response {
            Response(
                status: status, body: Array("{\"reason\":\"\(reason)\"}".utf8),
                sentAt: SimulatedRedis.epoch)
        }
        switch answer {
        case .accepted: return .accepted
        case .refused: return .notProcessed
        case .gone: return .answered(answered(410, "Unregistered"), retryAfterSeconds: nil)
        case .tooMany(let seconds):
            return .answered(answered(429, "TooManyRequests"), retryAfterSeconds: seconds)
        }
    }

    private func end(_ flight: Flight, _ outcome: PushOutcome) {
        worker.desk.ended(
            flight.run, flight.index, outcome, latency: worker.world.now - flight.sentAt,
            now: worker.clock)
    }

    /// The connection breaks: what has not arrived is proven not processed or in doubt.
    func cut() {
        let world = worker.world
        for id in flights.keys.sorted() {
            guard let flight = flights.removeValue(forKey: id) else { continue }
            let isProven = !flight.isProcessed && world.chance(0.5)
            if !isProven { worker.simulation.history.doubt(flight.recipient) }
            worker.post(milliseconds: 1) { [self] in
                end(flight, isProven ? .notProcessed : .unknown("ConnectionLost"))
            }
            // In doubt, it may still be processed.
            if !isProven, !flight.isProcessed, world.chance(0.5) {
                _ = worker.simulation.apns.process(flight.recipient)
            }
        }
    }

    /// Recipients that this worker has marked, or settled and not written yet.
    var inDoubt: [Int] { runs.flatMap { History.inDoubt($0.active) } }
}

/// Recipients are numbers, and their tokens these numbers.
enum Recipient {
    static func token(_ number: Int) -> String {
        let text = String(number, radix: 16)
        return String(repeating: "0", count: 64 - text.count) + text
    }

    static func read(_ token: UnsafeRawBufferPointer) -> Int {
        token.suffix(4).reduce(0) { $0 << 8 | Int($1) }
    }
}
