internal import Base
internal import EventLoop
internal import HTTP2
internal import Transport

extension SimulatorConnection {
    /// Does what a rule says about a request.
    ///
    /// `reply` makes the request's reply from an answer and what became of it; `judge` says the
    /// answer that the request deserves and is asked once at most, since it counts.
    func perform(
        _ deed: Deed, for reply: (Answer, Verdict?) -> Reply, judge: () -> Answer, run: ScriptRun
    ) {
        /// The reply of a request that gets no answer.
        func untold(_ processed: Bool) -> Reply {
            reply(.silence, processed ? judge().verdict : .unprocessed)
        }
        switch deed {
        case .answer(let answer):
            schedule(reply(.scripted(answer), nil), run: run, more: answer.delay)
        case .delay(let wait): schedule(reply(judge(), nil), run: run, more: wait)
        case .silence(let processed): conclude(untold(processed))
        case .reset(let code, let then, let processed):
            let stream = reply(.silence, nil).stream
            session?.reset(stream, code: code)
            if let then {
                try? session?.flush()  // nghttp2 would make one of two
                session?.reset(stream, code: then)
            }
            conclude(untold(processed))
        case .goAway(let goAway):
            let stream = reply(.silence, nil).stream
            say(goAway, at: stream)
            if stream > goAwayLast {
                conclude(untold(false))
            } else {
                schedule(reply(judge(), nil), run: run)
            }
        case .close(let processed, _):
            conclude(untold(processed))
            perform(deed)
        case .freeze:
            conclude(untold(false))
            perform(deed)
        case .limit, .window:
            perform(deed)
            schedule(reply(judge(), nil), run: run)
        }
    }

    /// Does what needs no request; other deeds do nothing here.
    func perform(_ deed: Deed) {
        guard isOpen, let session else { return }
        switch deed {
        case .goAway(let goAway): say(goAway, at: session.lastStream)
        case .close(_, let reset):
            flush()  // what was answered before
            socket.abort(reset: reset)
            left()
            return
        case .freeze:
            flush()
            isFrozen = true
            return
        case .limit(let streams, let back):
            try? session.setMaxConcurrentStreams(streams)
            if let back {
                owner.loop.schedule(after: back) { [weak self] in
                    guard let self, isOpen else { return }
                    try? self.session?.setMaxConcurrentStreams(owner.settings.streamsLater)
                    flush()
                }
            }
        case .window(let size, let updates):
            session.givesWindow = updates
            try? session.setInitialWindowSize(size)
        case .answer, .delay, .silence, .reset: return
        }
        flush()
    }

    /// Says GOAWAY, once or twice.
    func say(_ goAway: Deed.GoAway, at stream: Int32) {
        guard let session else { return }
        let last = min(goAway.last.number(at: stream), goAwayLast)
        goAwayLast = last
        // At once: one that waits would name streams that came after it.
        try? session.flush()
        session.goAway(lastStream: last, code: goAway.code, debug: goAway.debug)
        try? session.flush()
        if goAway.frames > 1 {
            session.goAway(lastStream: last, code: goAway.code, debug: [])
            try? session.flush()
        }
    }
}

extension ScriptedAnswer {
    /// The header fields after the status; `now` in milliseconds since the epoch.
    func fields(
        id: [UInt8], now: Int64, emitsUnlessTimestamp: Bool
    ) -> [(name: [UInt8], value: [UInt8])] {
        var fields: [(name: [UInt8], value: [UInt8])] = []
        if let dateSkew { fields.append((Text.date, Answer.date(skew: dateSkew))) }
        if text != nil {
            fields.append((Text.contentType, Text.plain))
        } else if reason != nil {
            fields.append((Text.contentType, Text.json))
        }
        if self.id != .none { fields.append((Text.id, id)) }
        switch retryAfter {
        case .seconds(let seconds)?:
            fields.append((Text.retryAfter, Array(String(seconds).utf8)))
        case .date(let seconds)?:
            let date = WallClock.httpDate(milliseconds: now + seconds * 1000)
            fields.append((Text.retryAfter, Array(date.utf8)))
        case nil: break
        }
        if let time, time.place == .header || time.place == .both && emitsUnlessTimestamp {
            fields.append((Text.unless, Array(String(time.value(now: now)).utf8)))
        }
        return fields
    }
}

extension Answer {
    /// Whether it brings a `date` of its own.
    var hasDate: Bool {
        if case .scripted(let answer) = self { return answer.dateSkew != nil }
        return false
    }

    /// The present time so many seconds ahead, as HTTP writes it.
    static func date(skew: Int64) -> [UInt8] {
        Array(WallClock.httpDate(milliseconds: WallClock.milliseconds() + skew * 1000).utf8)
    }
}

extension Reply {
    /// Has its bytes to itself, since those of the request are used again.
    mutating func keep() {
        self = Reply(
            moment: moment, stream: stream, token: Array(token)[...], id: id, answer: answer,
            verdict: verdict)
    }
}
