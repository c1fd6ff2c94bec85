import Campaign
import JSON
import Testing
import Worker

@testable import peal

@Suite("peal check")
struct CheckTests {
    static func check(_ text: String, apps: AppProfiles? = nil) -> CheckedJob {
        CheckedJob(path: "a.json", bytes: Array(text.utf8), apps: apps, now: 1_796_000_000_000)
    }

    static let job = """
        {"id": "a", "app": "shop", "environment": "sandbox", "payload": {"aps": {"alert": "b"}},
         "audience": {"tokens": ["aa"]}}
        """

    @Test("a good job is described in one line")
    func good() {
        #expect(
            Self.check(Self.job).lines
                == "a.json: good: campaign a, app shop, alert of 21 bytes, to 1 token inside the "
                + "job\n")
        #expect(Self.check(Self.job).json["ok"] == true)
    }

    @Test("every fault is a line with file, path and message")
    func faults() {
        let checked = Self.check("{\"id\": \"a\", \"app\": 1, \"weight\": 20}")
        let lines = checked.lines.split(separator: "\n")
        #expect(lines.count == 4)
        #expect(lines.contains("a.json: $.app: is a number; write a string"))
        #expect(checked.json["id"] == "a")
        #expect(checked.json["faults"]?.array?.count == 4)
    }

    @Test("with an apps file an unknown app and another environment are faults")
    func apps() throws {
        let file = """
            {"apps": {"shop": {"topic": "t", "environment": "production", "team_id": "TEAM123456",
             "key_id": "ABC123DEFG", "key_file": "k.p8"}}}
            """
        let apps = try AppProfiles.parse(Array(file.utf8), file: "apps.json")
        let other = Self.check(Self.job, apps: apps)
        #expect(other.faults.map(\.path) == ["$.environment"])
        let text = Self.job.split(separator: "shop").joined(separator: "shpo")
        let unknown = Self.check(text, apps: apps)
        #expect(unknown.lines.contains("\"shpo\" is not in the apps file (did you mean \"shop\"?)"))
        #expect(unknown.job == nil)
    }

    @Test("a file that can't be read is a fault, not an end")
    func absent() {
        let checked = CheckedJob.read("/nonexistent.json", apps: nil, now: 0)
        #expect(checked.lines.contains("No such file or directory; check the path"))
    }
}
