internal import Redis

/// The Lua scripts, each behind the common prelude.
///
/// The files in `Scripts/` head their contracts.
enum Scripts {
    static let commit = make("commit", PackageResources.commit_lua)
    static let claim = make("claim", PackageResources.claim_lua)
    static let register = make("register", PackageResources.register_lua)
    static let dead = make("dead", PackageResources.dead_lua)
    static let planClaim = make("plan_claim", PackageResources.plan_claim_lua)
    static let planClear = make("plan_clear", PackageResources.plan_clear_lua)
    static let planWrite = make("plan_write", PackageResources.plan_write_lua)
    static let planClose = make("plan_close", PackageResources.plan_close_lua)
    static let planFinish = make("plan_finish", PackageResources.plan_finish_lua)
    static let planFail = make("plan_fail", PackageResources.plan_fail_lua)
    static let planNote = make("plan_note", PackageResources.plan_note_lua)
    static let planRelease = make("plan_release", PackageResources.plan_release_lua)
    static let heartbeat = make("heartbeat", PackageResources.heartbeat_lua)
    static let expired = make("expired", PackageResources.expired_lua)
    static let reclaim = make("reclaim", PackageResources.reclaim_lua)
    static let orphans = make("orphans", PackageResources.orphans_lua)
    static let incarnation = make("incarnation", PackageResources.incarnation_lua)
    static let reassert = make("reassert", PackageResources.reassert_lua)
    static let confirm = make("confirm", PackageResources.confirm_lua)
    static let unpark = make("unpark", PackageResources.unpark_lua)
    static let control = make("control", PackageResources.control_lua)
    static let controls = make("controls", PackageResources.controls_lua)
    static let rollCall = make("roll_call", PackageResources.roll_call_lua)
    static let chore = make("chore", PackageResources.chore_lua)
    static let retire = make("retire", PackageResources.retire_lua)
    static let idle = make("idle", PackageResources.idle_lua)
    static let auditShard = make("audit_shard", PackageResources.audit_shard_lua)
    static let auditCampaign = make("audit_campaign", PackageResources.audit_campaign_lua)

    /// The flags line of the script, then the prelude, then the script.
    private static func make(_ name: String, _ body: [UInt8]) -> RedisScript {
        let end = body.firstIndex(of: 10) ?? body.endIndex
        return RedisScript(
            name: name, source: body[..<end] + [10] + PackageResources.prelude_lua + body[end...])
    }
}
