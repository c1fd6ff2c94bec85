internal import APNs
internal import Base
internal import Campaign
internal import Glibc
internal import JobQueue
internal import Redis

/// An audience that cannot be read.
struct AudienceError: Error {
    let path: String
    let message: String
}

/// Reads the recipients of one job twice: to count them and to plan them.
///
/// Memory does not grow with the audience.
struct AudienceReader {
    /// Entries of a Redis list read at once.
    static let pageSize = 5000
    /// Bytes of a file read at once.
    static let chunkSize = 256 * 1024
    /// The longest line of a file; a longer one is one invalid recipient.
    static let lineLimit = 64 * 1024

    let audience: Audience
    let folder: String?
    let store: JobStore

    /// Pass one: how many recipients there are now.
    func count() throws -> Int {
        switch audience {
        case .tokens(let tokens): return tokens.count
        case .redisList(let list):
            return try reading(list) { () throws(RedisError) in try store.listLength(list) }
        case .file(let name):
            var lines = 0
            try eachLine(of: name) { line in if !line.isEmpty { lines += 1 } }
            return lines
        }
    }

    /// Pass two: hands every recipient's text to `body`, in order; `turn` runs now and then.
    func read(_ body: (UnsafeRawBufferPointer) -> Void, turn: () throws -> Void) throws {
        switch audience {
        case .tokens(let tokens):
            for (index, token) in tokens.enumerated() {
                Array(token.utf8).withUnsafeBytes { body($0) }
                if index % AudienceReader.pageSize == AudienceReader.pageSize - 1 { try turn() }
            }
        case .redisList(let list):
            var position = 0
            while true {
                let start = position
                let page = try reading(list) { () throws(RedisError) in
                    try store.listPage(list, from: start, count: AudienceReader.pageSize)
                }
                for entry in page { entry.withUnsafeBytes { body($0) } }
                try turn()
                position += page.count
                if page.count < AudienceReader.pageSize { return }
            }
        case .file(let name):
            var lines = 0
            try eachLine(of: name) { line in
                guard !line.isEmpty else { return }
                body(line)
                lines += 1
                if lines % AudienceReader.pageSize == 0 { try turn() }
            }
        }
        try turn()
    }

    /// Reads from a list of the backend's: a key that is no list, or that Peal may not read, is a
    /// fault of the audience, which no repeat mends.
    private func reading<Value>(
        _ list: String, _ body: () throws(RedisError) -> Value
    ) throws -> Value {
        do throws(RedisError) {
            return try body()
        } catch {
            switch error.word {
            case "WRONGTYPE":
                throw AudienceError(
                    path: "$.audience.redis_list",
                    message: "the Redis key \(list) is no list; push the tokens with RPUSH")
            case "NOPERM":
                throw AudienceError(
                    path: "$.audience.redis_list",
                    message: "the workers may not read the Redis key \(list) (\(error)); allow "
                        + "it with ACL SETUSER … %R~\(list) and enqueue a job with a new id")
            default: throw error
            }
        }
    }

    /// The path of a file audience: inside the folder, never above it.
    private func path(of name: String) throws -> String {
        guard let folder else {
            throw AudienceError(
                path: "$.audience.file",
                message: "this worker takes no file audiences; start it with --audience-dir")
        }
        guard !name.hasPrefix("/"), !name.split(separator: "/").contains("..") else {
            throw AudienceError(
                path: "$.audience.file",
                message: "the file must be named relative to the worker's audience folder")
        }
        return folder + "/" + name
    }

    private func eachLine(of name: String, _ body: (UnsafeRawBufferPointer) throws -> Void) throws {
        let path = try path(of: name)
        // Never waits: a pipe, for example, would hold the planner for good.
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)
        guard file >= 0 else {
            throw AudienceError(
                path: "$.audience.file",
                message: "\(path) cannot be opened: \(String(cString: strerror(errno)))")
        }
        defer { close(file) }
        var facts = stat()
        guard fstat(file, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG else {
            throw AudienceError(path: "$.audience.file", message: "\(path) is no regular file")
        }
        let queue = ByteQueue(capacity: AudienceReader.chunkSize)
        var isStart = true
        var isSkipping = false
        while true {
            let space = queue.reserve(AudienceReader.chunkSize)
            let count = Glibc.read(file, space.baseAddress, space.count)
            guard count >= 0 else {
                throw AudienceError(
                    path: "$.audience.file",
                    message: "\(path) cannot be read: \(String(cString: strerror(errno)))")
            }
            queue.commit(count)
            if isStart, queue.readable.starts(with: [0xEF, 0xBB, 0xBF]) { queue.consume(3) }
            isStart = false
            try takeLines(queue, atEnd: count == 0, &isSkipping, body)
            if count == 0 { return }
        }
    }

    /// Takes the whole lines of `queue`; `isSkipping` stands for the rest of an over-long line.
    private func takeLines(
        _ queue: ByteQueue, atEnd: Bool, _ isSkipping: inout Bool,
        _ body: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        let bytes = queue.readable
        var start = 0
        while start < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[start...])
            let found = rest.firstIndex(of: 10)
            let isLong = found == nil && rest.count > AudienceReader.lineLimit
            guard let length = found ?? (atEnd || isLong || isSkipping ? rest.count : nil)
            else { break }
            var line = UnsafeRawBufferPointer(rebasing: rest[..<length])
            while let last = line.last, last == 13 || last == 32 || last == 9 {
                line = UnsafeRawBufferPointer(rebasing: line.dropLast())
            }
            if !isSkipping { try body(line) }
            isSkipping = found == nil
            start += length + (found == nil ? 0 : 1)
        }
        queue.consume(min(start, bytes.count))
    }
}
