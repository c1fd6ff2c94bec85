#!lua flags=allow-oom
-- Second look of the recovery: takes a shard or a plan back from a worker that is gone.
--
-- What was in flight has an unknown outcome. Under `skip`, and when the campaign is cancelled, it
-- ends as unknown. Under `resend` it is sent again; the first such death charges one try, later
-- ones none, so that deaths alone never end a recipient. Since one of those in flight may be what
-- ended the worker, they are suspects: each death in which a recipient was in flight raises its
-- level, and a higher level is sent in smaller company (Probe in ShardRun). One that was alone in
-- flight in three deaths is rejected as Poison.
--
-- ARGV: 1 member, 2 epoch or plan id, 3 revision, both as the first look saw them.
-- Returns {kept} (it lives after all), {plan}, {plan_failed}, {shard, sent again, unknown, poison,
--   level} or {paused} (the shard ended five workers before anything of it was sent).
local death_limit = 5
local alone_level, poison_level = 3, 5
local member = ARGV[1]
local score = redis.call('ZSCORE', ns .. ':leases', member)
if not score or tonumber(score) > now then return { 'kept' } end
local id, n = string.match(member, '^(.*):([^:]*)$')
local campaign = campaign_key(id)
if n == 'plan' then
    local h = redis.call('HMGET', campaign, 'plan', 'state', 'plan_written', 'plan_died_at',
        'plan_deaths')
    if h[1] ~= ARGV[2] then return { 'kept' } end
    redis.call('ZREM', ns .. ':leases', member)
    if h[2] ~= 'planning' then return { 'kept' } end
    -- Only deaths at about the same place point to the audience: the windows of another plan are
    -- full at slightly other places.
    local at, last = tonumber(h[3] or '0'), tonumber(h[4] or '-1')
    local same = last >= 0 and math.abs(at - last) <= math.max(10000, last / 50)
    local deaths = (same and tonumber(h[5]) or 0) + 1
    redis.call('HSET', campaign, 'plan', '', 'planner', '', 'plan_died_at', at,
        'plan_deaths', deaths)
    if deaths < death_limit then
        redis.call('LPUSH', ns .. ':plans', id)
        return { 'plan' }
    end
    local reason = 'planning it ended ' .. death_limit .. ' workers after about ' .. at
        .. ' recipients; find out why in their logs, then enqueue it with a new id'
    bury(id, '$.audience', reason, redis.call('GET', campaign .. ':job') or '')
    fail_plan(id, reason)
    expire_stats()
    return { 'plan_failed' }
end
local shard = shard_key(id, n)
local h = redis.call('HMGET', shard, 'epoch', 'revision', 'state', 'counts', 'crashes')
if not h[1] then
    lose_shard(id, n)
    expire_stats()
    return { 'kept' }
end
if h[1] ~= ARGV[2] or h[2] ~= ARGV[3] or h[3] ~= 'running' then return { 'kept' } end

local p = redis.call('HMGET', campaign, 'on_unknown', 'state')
local ends = p[1] == 'skip' or p[2] == 'cancelling'
local old = redis.call('GET', shard .. ':ledger')
local counts = unpack_counts(h[4])
local alone = counts[2] == 1
local levels, packed = {}, redis.call('GET', shard .. ':suspects') or ''
for at = 1, #packed, 5 do
    local index, level = struct.unpack('<I4B', packed, at)
    levels[index] = level
end
local again, unknown, poison, highest, reasons = 0, 0, 0, 0, {}
local new = string.gsub(old, '()([>A-I])', function(at, byte)
    local index = at - 1
    local reason = 'WorkerLost'
    if not ends then
        local level = (levels[index] or 0) + 1
        -- Only those that were alone pass the level of being sent alone.
        if alone then level = math.max(level, alone_level)
        else level = math.min(level, alone_level) end
        if level < poison_level then
            levels[index] = level
            highest = math.max(highest, level)
            again = again + 1
            return byte == '>' and '1' or string.char(string.byte(byte) - 16)
        end
        reason, poison = 'Poison', poison + 1
    else
        unknown = unknown + 1
    end
    reasons[#reasons + 1] = index
    reasons[#reasons + 1] = reason
    return ends and 'u' or 'r'
end)
local delta = {}
count_changes(old, new, delta)
local left
counts, left = apply_delta(id, counts, delta)
redis.call('SET', shard .. ':ledger', new)
for at = 1, #reasons, 1000 do
    redis.call('HSET', shard .. ':reasons', unpack(reasons, at, math.min(at + 999, #reasons)))
end
for reason, count in pairs({ WorkerLost = unknown, Poison = poison }) do
    if count > 0 then
        redis.call('HINCRBY', campaign .. ':stats', 'reason:' .. reason, count)
        add_stat('reason:' .. reason, count)
    end
end
local kept = {}
for index, level in pairs(levels) do
    if class_of[string.byte(new, index + 1)] < first_terminal then
        kept[#kept + 1] = struct.pack('<I4B', index, level)
    end
end
if #kept > 0 then redis.call('SET', shard .. ':suspects', table.concat(kept))
else redis.call('DEL', shard .. ':suspects') end
redis.call('HSET', shard, 'nonce', '', 'counts', table.concat(counts, ','), 'epoch',
    next_epoch(h[1]))
redis.call('HINCRBY', campaign .. ':stats', 'recovered_shards', 1)
add_stat('recovered_shards', 1)
-- A commit sets crashes to 0: what is counted are deaths before anything was even marked.
local crashes = redis.call('HINCRBY', shard, 'crashes', 1)
if left == 0 then finish_shard(id, n) else ready_shard(id, n, true) end
local answer = { 'shard', again, unknown, poison, highest }
if crashes >= death_limit and left > 0 then
    redis.call('HSET', shard, 'crashes', 0)
    steer(id, 'pause', 'shard ' .. n .. ' ended ' .. crashes .. ' workers before anything of it '
        .. 'was sent; find out why in their logs, then resume or cancel')
    answer = { 'paused' }
end
expire_stats()
return answer
