import Base
import Redis
import TestKit
import Testing

@testable import JobQueue

extension ChaosTests {
    @Suite("Redis in trouble")
    struct RedisTests {
        /// Nobody is doubled, lost or unknown, under either policy.
        private func expectSpotless(_ run: ChaosRun, _ verdict: ChaosVerdict) {
            #expect(verdict.violations.isEmpty)
            #expect(verdict.accounts.allSatisfy { $0.doubled == 0 && $0.unknown == 0 })
            #expect(run.lines("shard_fenced").isEmpty)
            #expect(run.lines("shard_recovered").isEmpty)
            #expect(run.lines("worker_fault").isEmpty)
        }

        /// Starts Redis again on a thread of its own; the reasons for which a worker was not ready.
        private func restartWatched(_ run: ChaosRun) async throws -> Set<String> {
            let redis = run.fleet.redis
            let isBack = Lock(false)
            let thread = Base.Thread("restart") {
                try? redis.restart()
                isBack.withLock { $0 = true }
            }
            var reasons: Set<String> = []
            try await eventually("Redis has its data", within: .seconds(30)) {
                if let reason = run.redisFault() { reasons.insert(reason) }
                return isBack.withLock { $0 }
            }
            thread.join()
            return reasons
        }

        @Test("killed, and shut down in order, in the middle: nobody is lost or sent twice")
        func restarts() async throws {
            // Loading takes a second or more: commands are answered with LOADING meanwhile.
            let run = try await ChaosRun(
                "Redis killed and restarted, twice", redisOptions: ["--key-load-delay", "2000"])
            try await run.begin()
            var backs: [Int64] = []
            run.fleet.redis.kill()
            try run.fleet.redis.restart()
            backs.append(WallClock.milliseconds())
            try await run.reach(0.4)
            _ = try? run.fleet.redis.command("SHUTDOWN")
            let reasons = try await restartWatched(run)
            backs.append(WallClock.milliseconds())
            #expect(reasons.contains { $0.contains("loading") }, "\(reasons)")
            let verdict = try await run.finish()
            expectSpotless(run, verdict)
            #expect(run.lines("redis_changed").count >= 3)
            for back in backs {
                #expect(try #require(verdict.requests.first(after: back)) < 5000)
            }
        }

        @Test(
            "unreachable for long: sending stops when the marks are used up, and goes on by itself",
            arguments: [(TCPProxy.Toxic.refuse, 20), (.blackHole, 13)])
        func outage(toxic: TCPProxy.Toxic, seconds: Int) async throws {
            var sizes = ChaosRun.Sizes()
            sizes.recipients = 10_000
            let run = try await ChaosRun("Redis unreachable for \(seconds) s (\(toxic))", sizes)
            try await run.begin()
            let start = WallClock.milliseconds()
            run.proxy.set(toxic)
            let marked = try run.inFlight()
            try await run.pass(.seconds(seconds))
            #expect(try #require(run.redisFault()).contains("Redis at"))
            #expect(try run.inFlight() == marked)
            run.proxy.set(.pass)
            let back = WallClock.milliseconds()
            let verdict = try await run.finish()
            expectSpotless(run, verdict)
            // What was sent had a mark that Redis had confirmed, not longer than 10 s ago.
            let requests = verdict.requests
            #expect(requests.count(from: start + 100, to: back) <= marked)
            #expect(requests.last(after: start, before: back) ?? 0 < 10_000)
            #expect(try #require(requests.first(after: back)) < 5000)
        }

        @Test("slow by 50 ms, by 500 ms, and frozen for 3 s: nothing but the pace suffers")
        func slow() async throws {
            let run = try await ChaosRun("Redis 50 ms and 500 ms slower, frozen for 3 s")
            try await run.begin()
            run.proxy.set(.delay(milliseconds: 25))
            try await run.reach(0.3)
            run.proxy.set(.delay(milliseconds: 250))
            try await run.pass(.seconds(6))
            run.proxy.set(.pass)
            run.fleet.redis.freeze()
            try await run.pass(.seconds(3))
            run.fleet.redis.thaw()
            let verdict = try await run.finish()
            expectSpotless(run, verdict)
        }

        @Test("read-only for 3 s, as a master that was replaced: nothing is sent without a record")
        func readOnly() async throws {
            let run = try await ChaosRun("Redis read-only for 3 s")
            try await run.begin()
            let nobody = "\(try RedisServer.freePort())"
            try run.fleet.redis.command("REPLICAOF", "127.0.0.1", nobody)
            try await run.pass(.seconds(3))
            #expect(try #require(run.redisFault()).contains("replica"))
            try run.fleet.redis.command("REPLICAOF", "NO", "ONE")
            let back = WallClock.milliseconds()
            let verdict = try await run.finish()
            expectSpotless(run, verdict)
            #expect(try #require(verdict.requests.first(after: back)) < 5000)
        }

        @Test("out of memory: a plan waits, those that are planned are sent to their end")
        func outOfMemory() async throws {
            let run = try await ChaosRun("maxmemory reached")
            try await run.begin()
            try run.enqueue("later", policy: "skip", 2000)
            try run.fleet.redis.command("CONFIG", "SET", "maxmemory", "1")
            try await eventually("those that are planned are completed", within: .seconds(60)) {
                try run.fleet.state("again") == "completed"
                    && run.fleet.state("once") == "completed"
            }
            #expect(["planning", nil].contains(try run.fleet.state("later")))
            #expect(try #require(run.redisFault()).contains("out of memory"))
            try run.fleet.redis.command("CONFIG", "SET", "maxmemory", "0")
            let verdict = try await run.finish()
            expectSpotless(run, verdict)
        }

        @Test("its scripts flushed again and again: they are loaded again")
        func flushedScripts() async throws {
            let run = try await ChaosRun("SCRIPT FLUSH again and again")
            try await run.begin()
            let connection = try run.fleet.connection()
            var flushes = 0
            try await eventually("most are sent", within: .seconds(60)) {
                try connection.command("SCRIPT", "FLUSH")
                flushes += 1
                return try run.accepted() > 24_000
            }
            #expect(flushes > 100)
            expectSpotless(run, try await run.finish())
        }

        @Test("replies cut off: of commits, claims, plans, heartbeats and taken jobs")
        func cutReplies() async throws {
            var sizes = ChaosRun.Sizes()
            sizes.shardSize = 300
            let run = try await ChaosRun("replies cut off", sizes)
            for script in [Scripts.planWrite, Scripts.planFinish] {
                run.proxy.arm(.replyTo(text: try run.digest(script)))
                if run.workers.isEmpty { try run.startWorker() }
                try await eventually("a plan's reply is cut off") { run.proxy.cuts > 0 }
            }
            for _ in 1..<sizes.workers { try run.startWorker() }
            try await run.reach(0.05)
            let scripts = [Scripts.commit, Scripts.claim, Scripts.heartbeat]
            for script in scripts + [Scripts.commit, Scripts.claim] {
                try await run.cut(.replyTo(text: try run.digest(script)))
                try await run.cut(.replyTo(text: try run.digest(script), passing: 3))
            }
            for bytes in [1, 50, 500] { try await run.cut(.afterReplyBytes(bytes)) }
            let before = run.proxy.cuts
            run.proxy.arm(.reply(text: #""id": "later""#))
            try run.enqueue("later", policy: "skip", 500)
            try await eventually("the job is cut off") { run.proxy.cuts > before }
            run.proxy.cutAll()
            expectSpotless(run, try await run.finish())
        }
    }
}
