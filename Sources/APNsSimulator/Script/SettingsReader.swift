internal import Base
internal import JSON

extension ScriptReader {
    mutating func settings(_ members: [String: JSONValue], path: String) -> ScriptSettings {
        var fields = JSONFields(
            members, path: path,
            known: [
                "seed", "latency", "rate_per_connection", "rate_per_token", "jwt_max_age_seconds",
                "jwt_update_rule", "streams_at_first", "streams_later", "error_score",
                "emit_unless_timestamp_header", "require_alpn", "date_skew_seconds",
                "initial_window", "window_updates",
            ])
        var settings = ScriptSettings()
        settings.seed = UInt64(fields.integer("seed", in: 0...Int64.max) ?? 1)
        settings.latency = latency(&fields)
        settings.ratePerConnection = fields.integer("rate_per_connection", in: 0...1_000_000)
            .map { Int($0) }
        settings.ratePerToken = ratePerToken(&fields)
        settings.tokenMaximumAge = fields.integer("jwt_max_age_seconds", in: 1...3_000_000)
        settings.hasUpdateRule = fields.truth("jwt_update_rule") ?? true
        settings.streamsAtFirst =
            fields.integer("streams_at_first", in: 0...Self.streamLimit)
            .map { Int($0) } ?? settings.streamsAtFirst
        settings.streamsLater =
            fields.integer("streams_later", in: 0...Self.streamLimit)
            .map { Int($0) } ?? settings.streamsLater
        settings.errorScore = errorScore(&fields)
        settings.emitsUnlessTimestamp = fields.truth("emit_unless_timestamp_header") ?? true
        settings.requiresALPN = fields.truth("require_alpn") ?? true
        settings.dateSkew = fields.integer("date_skew_seconds", in: Self.skews)
        settings.initialWindow =
            fields.integer("initial_window", in: 0...Self.windowLimit)
            .map { Int($0) } ?? settings.initialWindow
        settings.updatesWindow = fields.truth("window_updates") ?? true
        faults += fields.faults
        return settings
    }

    private func latency(_ fields: inout JSONFields) -> ScriptSettings.Latency? {
        fields.nested("latency", known: ["median_ms", "tail_share", "tail_ms"]) { inner in
            var latency = ScriptSettings.Latency()
            latency.median = inner.milliseconds("median_ms") ?? 0
            latency.tailShare = inner.number("tail_share", in: 0...1) ?? 0
            latency.tail = inner.milliseconds("tail_ms") ?? 0
            if inner.has("tail_share") != inner.has("tail_ms") {
                let missing = inner.has("tail_share") ? "tail_ms" : "tail_share"
                inner.missing(missing, "the tail needs tail_share and tail_ms")
            }
            return latency
        }
    }

    private func ratePerToken(_ fields: inout JSONFields) -> ScriptSettings.TokenRate? {
        fields.nested("rate_per_token", known: ["requests", "seconds"]) { inner in
            if !inner.has("requests") { inner.missing("requests", "write how many are taken") }
            let requests = inner.integer(
                "requests", in: 1...ScriptSettings.TokenRate.requestLimit)
            let seconds = inner.integer("seconds", in: 1...86_400) ?? 1
            return requests.map { .init(requests: Int($0), seconds: Int(seconds)) }
        }
    }

    private func errorScore(_ fields: inout JSONFields) -> ErrorScore.Rule? {
        fields.nested("error_score", known: ["limit_at", "goaway_at", "reason"]) { inner in
            var rule = ErrorScore.Rule()
            let range = 0...Self.numberLimit
            rule.limitAt = inner.integer("limit_at", in: range).map { Int($0) } ?? rule.limitAt
            rule.goAwayAt = inner.integer("goaway_at", in: range).map { Int($0) } ?? rule.goAwayAt
            rule.reason = inner.limitedText("reason") ?? rule.reason
            return rule
        }
    }
}
