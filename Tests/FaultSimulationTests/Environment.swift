import Glibc

/// What the command `deploy/simulate` asks for.
enum Environment {
    static func number(_ name: String) -> UInt64? {
        getenv(name).flatMap { UInt64(String(cString: $0)) }
    }
}
