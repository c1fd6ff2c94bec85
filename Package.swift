// swift-tools-version: 6.2
// The graph of rooms. What is not listed here is forbidden; `.ci/arrows` compares the imports
// with it.
import PackageDescription

/// One settings array for every Swift target.
let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .treatAllWarnings(as: .error),
]

func room(
    _ name: String, _ dependencies: [Target.Dependency] = [], resources: [Resource] = []
) -> Target {
    .target(
        name: name, dependencies: dependencies, resources: resources, swiftSettings: settings)
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies, swiftSettings: settings)
}

let package = Package(
    name: "peal",
    products: [.executable(name: "peal", targets: ["peal"])],
    targets: [
        // C libraries: a module map and a shim each, one Swift importer each (OpenSSL two).
        .systemLibrary(name: "CLinux"),
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(
            name: "CNghttp2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
        .systemLibrary(name: "CHiredis", providers: [.apt(["libhiredis-dev"])]),

        // Values and wires.
        room("Base"),
        room("JSON", ["Base"]),
        room("Telemetry", ["Base"]),
        room("Crypto", ["COpenSSL"]),
        room("TLS", ["COpenSSL", "Base"]),
        room("HTTP2", ["CNghttp2", "Base"]),
        room("EventLoop", ["CLinux", "Base"]),
        room("Transport", ["EventLoop", "TLS", "Base"]),
        room("Redis", ["CHiredis", "EventLoop", "TLS", "Base"]),

        // Vocabularies, pure.
        room("APNs", ["Crypto", "JSON", "Base"]),
        room("Campaign", ["APNs", "Crypto", "JSON", "Base"]),

        // What acts.
        room(
            "APNsClient", ["APNs", "HTTP2", "TLS", "Transport", "EventLoop", "Telemetry", "Base"]),
        room(
            "APNsSimulator",
            [
                "Crypto", "JSON", "HTTP2", "TLS", "Transport", "EventLoop", "Base",
            ]),
        room(
            "JobQueue", ["Redis", "Campaign"],
            resources: [.embedInCode("Scripts")]),
        room(
            "Worker",
            [
                "Campaign", "JobQueue", "Redis", "APNs", "APNsClient", "Crypto", "EventLoop", "TLS",
                "JSON", "Telemetry", "Base",
            ]),

        // Programs.
        .executableTarget(
            name: "peal",
            dependencies: [
                "Worker", "JobQueue", "Redis", "Campaign", "APNs", "APNsSimulator", "EventLoop",
                "JSON", "Telemetry", "Base",
            ],
            path: "Sources/CLI", swiftSettings: settings),
        .executableTarget(
            name: "Bench",
            dependencies: [
                "APNs", "APNsClient", "Crypto", "EventLoop", "TLS", "Telemetry", "Base",
            ], swiftSettings: settings),

        // Tests.
        .target(
            name: "TestKit", dependencies: ["Redis", "Crypto", "EventLoop", "JSON", "Base"],
            path: "Tests/TestKit", swiftSettings: settings),
        tests("TestKitTests", ["TestKit", "Redis", "Base"]),
        tests("BaseTests", ["Base"]),
        tests("TelemetryTests", ["Telemetry", "Base", "JSON"]),
        tests("CryptoTests", ["Crypto", "TestKit", "Base"]),
        tests("TLSTests", ["TLS", "Crypto", "TestKit", "Base"]),
        tests("HTTP2Tests", ["HTTP2", "Base"]),
        tests("RedisTests", ["Redis", "TestKit", "Base"]),
        tests("APNsTests", ["APNs", "Crypto", "Base"]),
        tests("APNsSimulatorTests", ["APNsSimulator", "APNs", "Crypto", "JSON", "Base"]),
        tests("EventLoopTests", ["EventLoop", "Base"]),
        tests("JSONTests", ["JSON"]),
        tests(
            "APNsClientTests",
            [
                "APNsClient", "APNsSimulator", "APNs", "Crypto", "HTTP2", "TLS", "Transport",
                "EventLoop", "Telemetry", "Base", "TestKit",
            ]),
        tests("CampaignTests", ["Campaign", "APNs", "JSON", "Base"]),
        tests("JobQueueTests", ["JobQueue", "Redis", "Campaign", "TestKit", "Base"]),
        tests("WorkerTests", ["Worker", "Redis", "APNs", "JSON", "Base"]),
        tests(
            "CLITests",
            ["peal", "Redis", "Worker", "JobQueue", "Campaign", "JSON", "TestKit"]),
        tests(
            "FaultSimulationTests",
            [
                "Worker", "JobQueue", "Redis", "Campaign", "APNs", "APNsClient",
                "Telemetry", "Base", "TestKit",
            ]),
        tests("EndToEndTests", ["TestKit", "JSON", "Base"]),
        tests("ChaosTests", ["TestKit", "JobQueue", "Redis", "JSON", "Base"]),
    ],
    swiftLanguageModes: [.v6]
)
