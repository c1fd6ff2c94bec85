import JSON
import Testing

@Suite("JSON")
struct JSONTests {
    @Test(
        "the canonical text has sorted keys, no spaces and one spelling for each value",
        arguments: [
            ("{ \"b\" : 1, \"a\" : [ true , null ] }", "{\"a\":[true,null],\"b\":1}"),
            ("[1.0, 1e3, -0, 0.5, 1e-7, 1e300]", "[1,1000,0,0.5,1e-07,1e+300]"),
            (
                "[9007199254740993, 18446744073709551615]",
                "[9007199254740993,1.8446744073709552e+19]"
            ),
            ("\"a\\/b \\u00e9 \\ud83d\\ude00 \\n \\u0001\"", "\"a/b é 😀 \\n \\u0001\""),
            ("\u{FEFF}{}", "{}"), (" [ ] ", "[]"),
        ])
    func canonical(input: String, output: String) throws {
        let value = try JSONValue.parse(input)
        #expect(value.text == output)
        #expect(try JSONValue.parse(output) == value)
        #expect(try JSONValue.parse(value.pretty()) == value)
    }

    @Test(
        "what is not JSON is refused with its place",
        arguments: [
            ("", "the text is empty (line 1, column 1)"),
            ("{\"a\":1,\n  b}", "a key in double quotes is missing (line 2, column 3)"),
            ("[1,]", "a value is missing or is not JSON (line 1, column 4)"),
            ("[1", "a comma or ] is missing (line 1, column 3)"),
            ("{\"é\" 1}", "a colon is missing after the key (line 1, column 6)"),
            ("{\"a\":1,\"a\":2}", "the key \"a\" is given twice in one object (line 1, column 8)"),
            ("\"abc", "the string that begins here has no end (line 1, column 1)"),
            ("\"\\ud800\"", "half of a surrogate pair (line 1, column 2)"),
            ("\"\\x\"", "an unknown escape; write \\\\ for a backslash (line 1, column 2)"),
            ("\"\\", "an unknown escape; write \\\\ for a backslash (line 1, column 2)"),
            ("01", "a number may not begin with 0 (line 1, column 2)"),
            ("1.", "a digit is missing (line 1, column 3)"),
            ("1e999", "the number is out of range (line 1, column 1)"),
            ("1 2", "something follows the end of the JSON text (line 1, column 3)"),
            ("tru", "a value is missing or is not JSON (line 1, column 1)"),
        ])
    func refused(input: String, message: String) throws {
        let error = #expect(throws: JSONError.self) { try JSONValue.parse(input) }
        #expect(error?.description == message)
    }

    @Test("nesting and length have a limit, and bytes must be UTF-8")
    func limits() throws {
        func nested(_ depth: Int) -> String {
            String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        }
        #expect(throws: Never.self) { try JSONValue.parse(nested(JSONLimits.depth)) }
        #expect(throws: JSONError.self) { try JSONValue.parse(nested(JSONLimits.depth + 2)) }
        #expect(throws: JSONError.self) { try JSONValue.parse(Array("[1]".utf8), maximumBytes: 2) }
        #expect(throws: JSONError.self) { try JSONValue.parse([0x22, 0xFF, 0x22]) }
    }

    @Test("accessors give a value of their own kind only")
    func accessors() throws {
        let value: JSONValue = ["text": "a", "whole": 7, "part": 0.5, "list": [true], "none": [:]]
        #expect(value["text"]?.string == "a")
        #expect(value["whole"]?.integer == 7)
        #expect(value["whole"]?.double == 7)
        #expect(value["part"]?.integer == nil)
        #expect(value["part"]?.double == 0.5)
        #expect(value["list"]?[0]?.bool == true)
        #expect(value["list"]?[1] == nil)
        #expect(value["absent"] == nil)
        #expect(value["none"]?.object?.isEmpty == true)
    }
}
