internal import APNsSimulator
internal import Worker

/// The script of `peal simulator --script`.
enum SimulatorScript {
    /// Reads a script; all its faults stand in the message.
    static func read(_ path: String) throws(Failure) -> Script {
        let bytes: [UInt8]
        do { bytes = try FileReader.read(path) } catch {
            throw .configuration("\(error); check --script")
        }
        do { return try Script.read(bytes) } catch {
            throw .configuration("\(path): \(error)")
        }
    }

    /// The part of `peal simulator --help` about scripts.
    static let help = """

        A script is {"rules": [{"when": {…}, "do": {…}, "limit": N}, …], "settings": {…}}. For each
        request the first rule holds whose when is fulfilled (all its members) and that was not
        used limit times. Rules and the whole script may have a note, which is not read.

        when: token, token_prefix; token_share (0 to 1, with seed); first_of_token (the first N
        requests of each token); topic; connection, request (on its connection), total (of all):
        a number from 1, or {"from": N, "until": N, "every": N}; seconds {"from", "until"} after
        the script began.

        do, one of: answer {status, reason or text, size, frames, timestamp {unit, form, place,
        ago_seconds}, apns_id (same, other, none), retry_after or retry_after_date,
        date_skew_seconds, delay_ms}; delay {ms}; silence {processed}; reset {code, then,
        processed}; goaway {last (this, previous, all or a stream), code, reason or text, frames};
        close {processed, tcp_reset}; freeze {}; limit {streams, back_after_ms}; window {size,
        updates}. Where a request is processed without an answer the record says 0 accepted.

        settings: seed, latency {median_ms, tail_share, tail_ms}, rate_per_connection,
        rate_per_token {requests, seconds}, jwt_max_age_seconds, jwt_update_rule,
        streams_at_first, streams_later, error_score {limit_at, goaway_at, reason},
        emit_unless_timestamp_header, require_alpn, date_skew_seconds, initial_window,
        window_updates. Stream limits at first, windows and ALPN are for new connections.

        The control endpoint takes GET /counts, PUT /script (a whole script, which begins anew),
        POST /action (goaway, close, freeze, limit or window as in do, perhaps beside
        "connection": N) and POST /reset (counts). Example:
        curl -X POST -d '{"goaway":{"reason":"Shutdown"}}' http://localhost:8197/action
        """
}
