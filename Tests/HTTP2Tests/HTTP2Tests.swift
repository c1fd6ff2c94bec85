import Base
import HTTP2
import Testing

@Suite("HTTP/2 in memory")
struct HTTP2Tests {
    @Test("one stream is allowed until the peer's SETTINGS, then as many as they say")
    func limit() throws {
        var settings = HTTP2Server.Settings()
        settings.maxConcurrentStreams = 3
        let pair = try HTTP2Pair(settings: settings)
        #expect(pair.client.capacity == 1)
        #expect(pair.submit(1) != nil)
        #expect(pair.client.capacity == 0)
        #expect(pair.submit(2) == nil)
        try pair.pump()
        #expect(pair.others == ["settings 3"])
        #expect(pair.client.capacity == 2)
        #expect(pair.submit(2) != nil)
        #expect(pair.submit(3) != nil)
        #expect(pair.submit(4) == nil)
        try pair.pump()
        #expect(pair.requests.count == 3)
        for request in pair.requests { pair.server.respondOK(request.stream) }
        try pair.pump()
        #expect(pair.results.map(\.status) == [200, 200, 200])
        #expect(Set(pair.results.map(\.tag)) == [1, 2, 3])
        #expect(pair.client.capacity == 3)
    }

    @Test("a limit that the peer lowers below the open streams leaves no capacity")
    func lowered() throws {
        let pair = try HTTP2Pair(streamLimit: 5)
        try pair.pump()
        #expect(pair.client.capacity == 5)
        for tag in 1...4 { #expect(pair.submit(UInt64(tag)) != nil) }
        try pair.pump()
        try pair.server.setMaxConcurrentStreams(2)
        try pair.pump()
        #expect(pair.client.peerLimit == 2)
        #expect(pair.client.capacity == 0)
        for request in pair.requests.prefix(3) { pair.server.respondOK(request.stream) }
        try pair.pump()
        #expect(pair.client.capacity == 1)
    }

    @Test("a refused stream ends without a status and with the code that proves it")
    func refused() throws {
        let pair = try HTTP2Pair()
        try pair.pump()
        #expect(pair.submit(7) != nil)
        try pair.pump()
        pair.server.reset(try #require(pair.requests.first).stream, code: 7)
        try pair.pump()
        let result = try #require(pair.results.first)
        #expect(result.tag == 7)
        #expect(result.status == 0)
        #expect(result.errorCode == HTTP2ErrorCode.refusedStream)
        #expect(pair.client.openStreams == 0)
    }

    @Test("GOAWAY refuses the streams above its last id; those below are still answered")
    func goAway() throws {
        let pair = try HTTP2Pair()
        try pair.pump()
        let streams = (1...4).compactMap { pair.submit(UInt64($0)) }
        #expect(streams == [1, 3, 5, 7])
        try pair.pump()
        pair.server.goAway(lastStream: 3, code: 0, debug: Array("bye".utf8))
        try pair.pump()
        #expect(pair.others.last == "goaway 3 0 bye")
        #expect(pair.client.isDraining)
        #expect(pair.client.capacity == 0)
        #expect(pair.submit(9) == nil)
        #expect(Set(pair.results.map(\.tag)) == [3, 4])
        #expect(pair.results.allSatisfy { $0.errorCode == HTTP2ErrorCode.refusedStream })
        for stream in [Int32(1), 3] { pair.server.respondOK(stream) }
        try pair.pump()
        #expect(pair.results.map(\.status) == [0, 0, 200, 200])
        #expect(pair.client.openStreams == 0)
    }

    @Test("a hundred bodies at once arrive whole over small windows", arguments: [1 << 20, 13])
    func windows(chunk: Int) throws {
        var settings = HTTP2Server.Settings()
        settings.initialWindowSize = 100
        let pair = try HTTP2Pair(settings: settings)
        pair.chunk = chunk
        try pair.pump()
        var expected: [Int32: [UInt8]] = [:]
        for tag in 0..<100 {
            let body = (0..<(tag * 50)).map { UInt8(truncatingIfNeeded: $0 &+ tag) }
            expected[try #require(pair.submit(UInt64(tag), body: body))] = body
        }
        try pair.pump()
        #expect(pair.requests.count == 100)
        for request in pair.requests {
            #expect(request.body == expected[request.stream])
            #expect(request.bodyCount == request.body.count)
            pair.server.respondOK(request.stream)
        }
        try pair.pump()
        #expect(pair.results.count == 100)
        #expect(pair.results.allSatisfy { $0.status == 200 && $0.errorCode == 0 })
        #expect(pair.client.openStreams == 0)
    }

    @Test("status, fields and body of an error arrive whole however they are cut")
    func errorBody() throws {
        for chunk in [1, 10, 1 << 20] {
            let pair = try HTTP2Pair()
            pair.chunk = chunk
            try pair.pump()
            #expect(pair.submit(1) != nil)
            try pair.pump()
            let body = Array(#"{"reason":"Unregistered","timestamp":1629000000000}"#.utf8)
            pair.server.respond(
                try #require(pair.requests.first).stream, status: 410,
                fields: [(Array("apns-id".utf8), Array("x".utf8))], body: body)
            try pair.pump()
            let result = try #require(pair.results.first)
            #expect(result.status == 410)
            #expect(result.detail?.body == body)
            #expect(result.detail?.field("apns-id") == "x")
            #expect(result.detail?.field("other") == nil)
        }
    }

    @Test("of a long error body the beginning is kept")
    func longBody() throws {
        let pair = try HTTP2Pair()
        try pair.pump()
        #expect(pair.submit(1) != nil)
        try pair.pump()
        let stream = try #require(pair.requests.first).stream
        pair.server.respond(stream, status: 500, body: [UInt8](repeating: 65, count: 100_000))
        try pair.pump()
        #expect(pair.results.first?.detail?.body.count == ResponseDetail.bodyLimit)
        #expect(pair.results.first?.status == 500)
    }

    @Test("a cancelled request ends once, and the peer hears of it")
    func cancel() throws {
        let pair = try HTTP2Pair()
        try pair.pump()
        let stream = try #require(pair.submit(1))
        try pair.pump()
        pair.client.cancel(stream)
        try pair.pump()
        #expect(pair.results.map(\.errorCode) == [HTTP2ErrorCode.cancel])
        #expect(pair.cancelled == ["\(stream) 8"])
        pair.server.respondOK(stream)
        try pair.pump()
        #expect(pair.results.count == 1)
    }

    @Test("a ping is answered with a pong")
    func ping() throws {
        let pair = try HTTP2Pair()
        pair.client.ping()
        try pair.pump()
        #expect(pair.others.contains("pong"))
    }

    @Test("after an orderly close and the last answer the session is finished")
    func close() throws {
        let pair = try HTTP2Pair()
        try pair.pump()
        #expect(pair.submit(1) != nil)
        try pair.pump()
        pair.client.goAway()
        try pair.pump()
        #expect(!pair.client.isFinished)
        pair.server.respondOK(try #require(pair.requests.first).stream)
        try pair.pump()
        #expect(pair.results.map(\.status) == [200])
        #expect(pair.client.isFinished)
    }

    @Test("a peer that does not speak HTTP/2 ends the session")
    func garbage() throws {
        let pair = try HTTP2Pair()
        let input = ByteQueue()
        input.append(Array("HTTP/1.1 400 Bad Request\r\n\r\nthis is no HTTP/2 at all".utf8))
        do {
            try pair.client.receive(input)
            try pair.client.flush()
        } catch is HTTP2Error { return }
        #expect(pair.client.isFinished)
    }
}
