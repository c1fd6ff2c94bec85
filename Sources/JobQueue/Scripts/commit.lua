#!lua flags=allow-oom
-- Writes what became of a stretch of recipients and marks the next ones, in one step.
--
-- ARGV: 1 campaign, 2 shard, 3 plan id, 4 epoch, 5 claim nonce (the fence), 6 commit number,
--   7 lease in ms, 8 mode: commit | replay (the whole ledger, after Redis was rolled back),
--   9 changes: repeated u32 offset, u32 length, the bytes as the worker knows them, the new bytes;
--   10 latency: `bucket=count …`, 11 counters: `name=count …`,
--   12 finish: '' | release | park:<until, ms>:<length, ms>, 13 due records, 14 indexes whose
--   outcome became unknown (u32 each), 15 number of reason arguments, 16 number of deactivations,
--   then reasons (index, text), deactivations, quarantine entries.
-- Returns {status, campaign state, now, not terminal, stored commit number}; status is ok, done,
--   fenced, rolled_back (commits were lost), claim_rolled_back (the claim was) or gone.
-- Cost: O(bytes changed); about 0.3 ms for 500 outcomes.
local id, n, number = ARGV[1], ARGV[2], tonumber(ARGV[6])
local campaign, shard, member = campaign_key(id), shard_key(id, n), id .. ':' .. n
local h = redis.call('HMGET', shard, 'plan', 'epoch', 'nonce', 'revision', 'state', 'counts')
local state = redis.call('HGET', campaign, 'state')
if not h[1] or not state or state == 'retiring' then return { 'gone', '', now, 0, 0 } end
if h[1] ~= ARGV[3] or h[2] ~= ARGV[4] or h[3] ~= ARGV[5] then
    -- Epochs only grow: one that is not greater than the owner's means that the claim was lost.
    local lost = h[1] == ARGV[3] and tonumber(h[2]) <= tonumber(ARGV[4]) and h[5] ~= 'done'
    return { lost and 'claim_rolled_back' or 'fenced', state, now, 0, tonumber(h[4]) }
end
local stored = tonumber(h[4])
local counts = unpack_counts(h[6])
if stored == number then
    local left = counts[1] + counts[2] + counts[3]
    return { left == 0 and 'done' or 'ok', state, now, left, stored }
end
if h[5] ~= 'running' then return { 'fenced', state, now, 0, stored } end
if stored ~= number - 1 and not (ARGV[8] == 'replay' and stored < number) then
    return { 'rolled_back', state, now, 0, stored }
end

-- 1. The ledger, and the counters that follow from it. Where the stored bytes are what the worker
--    knew, both sides are counted with pattern matches; otherwise byte by byte. Nothing is written
--    before all is checked, since Redis keeps what a script wrote before it failed.
local delta, ledger, writes = {}, shard .. ':ledger', {}
local changes, at, olds, news = ARGV[9], 1, {}, {}
while at <= #changes do
    local offset, length
    offset, length, at = struct.unpack('<I4I4', changes, at)
    local known = string.sub(changes, at, at + length - 1)
    local new = string.sub(changes, at + length, at + 2 * length - 1)
    at = at + 2 * length
    local old = redis.call('GETRANGE', ledger, offset, offset + length - 1)
    if #old ~= length then
        return redis.error_reply('ERR the ledger of ' .. member .. ' is short')
    end
    if old == known then
        olds[#olds + 1], news[#news + 1] = old, new
    else
        new = count_changes(old, new, delta)
        if not new then return redis.error_reply('ERR an unknown ledger byte for ' .. member) end
    end
    if new ~= old then writes[#writes + 1] = { offset, new } end
end
local unreadable = count_classes(table.concat(olds), delta, -1)
if unreadable + count_classes(table.concat(news), delta, 1) > 0 then
    return redis.error_reply('ERR an unknown ledger byte for ' .. member)
end
for index = first_terminal, #classes do
    if (delta[index] or 0) < 0 then
        return redis.error_reply('ERR a terminal recipient of ' .. member .. ' would change')
    end
end
for _, w in ipairs(writes) do redis.call('SETRANGE', ledger, w[1], w[2]) end
local left
counts, left = apply_delta(id, counts, delta)
redis.call('HSET', shard, 'revision', number, 'counts', table.concat(counts, ','), 'crashes', 0)

-- 2. Reasons, deactivations, quarantine: in the same step as the bytes they explain.
local reasons, gone = tonumber(ARGV[15]), tonumber(ARGV[16])
local next_arg = 17
local function take(count, limit, body)
    while count > 0 do
        local part = math.min(count, limit)
        body(next_arg, next_arg + part - 1)
        next_arg, count = next_arg + part, count - part
    end
end
take(reasons, 1000, function(a, b) redis.call('HSET', shard .. ':reasons', unpack(ARGV, a, b)) end)
take(gone, 1000, function(a, b) redis.call('LPUSH', ns .. ':deactivations', unpack(ARGV, a, b)) end)
take(#ARGV - next_arg + 1, 1000,
    function(a, b) redis.call('LPUSH', ns .. ':quarantine', unpack(ARGV, a, b)) end)

-- 3. Statistics.
for name, count in string.gmatch(ARGV[11], '(%S+)=(%d+)') do
    redis.call('HINCRBY', campaign .. ':stats', name, count)
    add_stat(name, count)
end
if ARGV[10] ~= '' then
    local minute = ns .. ':latency:minute:' .. (seconds - seconds % 60)
    for bucket, count in string.gmatch(ARGV[10], '(%d+)=(%d+)') do
        redis.call('HINCRBY', minute, bucket, count)
    end
    redis.call('EXPIRE', minute, 604800)
end
if ARGV[14] ~= '' then redis.call('APPEND', shard .. ':unknowns', ARGV[14]) end

-- 4. Lease, or the end of it.
if left == 0 then
    finish_shard(id, n)
elseif ARGV[12] == '' then
    if ARGV[13] ~= '' then redis.call('APPEND', shard .. ':due', ARGV[13]) end
    redis.call('ZADD', ns .. ':leases', now + tonumber(ARGV[7]), member)
else
    if ARGV[13] == '' then redis.call('DEL', shard .. ':due')
    else redis.call('SET', shard .. ':due', ARGV[13]) end
    local time, delay = string.match(ARGV[12], '^park:(%d+):(%d+)$')
    if not time or state == 'cancelling' then
        if ready_shard(id, n, true) then left = 0 end
    else
        redis.call('HSET', shard, 'state', 'parked', 'owner', '', 'parked_for', delay)
        call_roll(id, n, 'p')
        redis.call('ZREM', ns .. ':leases', member)
        redis.call('ZADD', ns .. ':deferred', time, member)
    end
end
expire_stats()
return { left == 0 and 'done' or 'ok', redis.call('HGET', campaign, 'state'), now, left, number }
