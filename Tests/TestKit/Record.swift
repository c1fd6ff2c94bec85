/// The lines of the simulator's record.
package struct Record {
    package struct Line {
        package let time: Double
        package let connection: Int
        package let token: String
        package let id: String
        /// 200 for what was accepted, told or not; 0 for what got no answer otherwise.
        package let status: Int
    }

    package let lines: [Line]

    package init(_ text: String) {
        lines = text.split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ")
            guard words.count == 7, let time = Double(words[0]), let connection = Int(words[1]),
                let status = Int(words[5])
            else { return nil }
            return Line(
                time: time, connection: connection, token: String(words[3]), id: String(words[4]),
                status: words[6] == "accepted" ? 200 : status)
        }
    }

    /// How often each token was accepted.
    package var acceptances: [String: Int] {
        var result: [String: Int] = [:]
        for line in lines where line.status == 200 { result[line.token, default: 0] += 1 }
        return result
    }

    package func tokens(_ status: Int) -> Set<String> {
        Set(lines.filter { $0.status == status }.map(\.token))
    }

    package func count(_ status: Int) -> Int { lines.count { $0.status == status } }

    /// Acceptances beyond the first of each token.
    package var doubles: Int { acceptances.values.reduce(0) { $0 + $1 - 1 } }
}
