import Base

/// Virtual time, chance and the order of events of one simulated run: the same seed gives the same
/// run.
///
/// A worker's threads are real threads of which one at a time runs, when the world hands it the
/// turn; whoever waits gives it back. So the code of the workers runs unchanged, and everything
/// here belongs to whoever has the turn.
final class World: @unchecked Sendable {
    /// The least time that a run begins at, since some code takes 0 for never.
    private static let start = Nanoseconds.seconds(1000)

    private(set) var now = Instant(nanoseconds: World.start)
    private(set) var current: SimulatedTask?
    private(set) var isOver = false
    private(set) var trace: UInt64 = 0xCBF2_9CE4_8422_2325
    /// What happened, a line each, when it is kept.
    private(set) var lines: [String] = []
    let keepsLines: Bool
    private var random: SeededRandom
    private var events = MinHeap<() -> Void>()
    private var sequence: Int64 = 0
    private var tasks: [SimulatedTask] = []
    private let back = Mailbox<Void>(limit: 1)

    init(seed: UInt64, keepsLines: Bool = false) {
        random = SeededRandom(seed: seed &* 0x9E37_79B9 &+ 77)
        self.keepsLines = keepsLines
    }

    /// Virtual milliseconds since the start of the run.
    var milliseconds: Int64 { (now.nanoseconds - World.start) / 1_000_000 }

    // MARK: Chance

    func next() -> UInt64 { random.next() }
    func chance(_ probability: Double) -> Bool { random.fraction() < probability }
    /// A number of the range.
    func pick(_ range: ClosedRange<Int>) -> Int {
        range.lowerBound + Int(random.next() % UInt64(range.count))
    }

    // MARK: Events

    /// Does `body` after so many nanoseconds; what is due together runs in order.
    func after(_ nanoseconds: Int64, _ body: @escaping () -> Void) {
        sequence += 1
        let micros = (now.nanoseconds + max(0, nanoseconds)) / 1000
        events.add(body, key: micros << 20 | (sequence & 0xFFFFF))
    }

    func after(milliseconds: Int, _ body: @escaping () -> Void) {
        after(Nanoseconds.milliseconds(milliseconds), body)
    }

    /// Lets the next event happen.
    func step() {
        guard let first = events.first else { preconditionFailure("a world always has events") }
        events.removeFirst()
        now = max(now, Instant(nanoseconds: (first.key >> 20) * 1000))
        first.element()
    }

    /// Notes what happened: what the trace covers is what a replay must repeat.
    func note(_ text: @autoclosure () -> String) {
        let line = "\(milliseconds) \(text())"
        for byte in line.utf8 { trace = (trace ^ UInt64(byte)) &* 0x100_0000_01B3 }
        if keepsLines { lines.append(line) }
    }

    // MARK: Threads

    /// Starts a thread of a worker.
    func spawn(_ name: String, _ body: @escaping (SimulatedTask) -> Void) -> SimulatedTask {
        let task = SimulatedTask(name)
        tasks.append(task)
        let box = Box(body: body)
        _ = Thread("simulated") { [back] in
            task.take()
            box.body(task)
            task.isDone = true
            back.add(())
        }
        return task
    }

    private struct Box: @unchecked Sendable { let body: (SimulatedTask) -> Void }

    /// Gives a task the turn if it still waits for this.
    func resume(_ task: SimulatedTask, _ wait: Int) {
        guard !task.isDone, task.wait == wait else { return }
        task.wait += 1
        current = task
        task.turn.add(())
        guard !back.take(waitingAtMost: Nanoseconds.seconds(60)).isEmpty else {
            preconditionFailure("\(task.name) has kept the turn for a minute: it loops")
        }
        current = nil
    }

    /// The current task waits until somebody resumes it.
    func suspend() {
        guard let task = current else { preconditionFailure("only a task can wait") }
        guard !isOver else { return }
        back.add(())
        task.take()
    }

    /// Ends all tasks: they see that the run is over.
    func end() {
        isOver = true
        for task in tasks { while !task.isDone { resume(task, task.wait) } }
    }
}

/// A thread of a simulated worker.
final class SimulatedTask: @unchecked Sendable {
    let name: String
    /// Counts its waits, so that a wake that comes late wakes nobody.
    var wait = 0
    var isDone = false
    let turn = Mailbox<Void>(limit: 1)

    init(_ name: String) { self.name = name }

    func take() { while turn.take(waitingAtMost: Nanoseconds.seconds(60)).isEmpty {} }
}
