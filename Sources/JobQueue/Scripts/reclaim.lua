#!lua flags=allow-oom
-- Second look of the recovery: takes a shard or a plan back from a worker that is gone. What was in
-- flight has an unknown outcome: the campaign's policy decides what that means.
--
-- ARGV: 1 member, 2 epoch or plan id, 3 revision, both as the first look saw them.
-- Returns {kept} (it lives after all), {plan} or {shard, sent again, unknown}.
local member = ARGV[1]
local score = redis.call('ZSCORE', ns .. ':leases', member)
if not score or tonumber(score) > now then return { 'kept' } end
local id, n = string.match(member, '^(.*):([^:]*)$')
local campaign = campaign_key(id)
if n == 'plan' then
    local h = redis.call('HMGET', campaign, 'plan', 'state')
    if h[1] ~= ARGV[2] then return { 'kept' } end
    redis.call('ZREM', ns .. ':leases', member)
    if h[2] ~= 'planning' then return { 'kept' } end
    redis.call('HSET', campaign, 'plan', '', 'planner', '')
    redis.call('LPUSH', ns .. ':plans', id)
    return { 'plan' }
end
local shard = shard_key(id, n)
local h = redis.call('HMGET', shard, 'epoch', 'revision', 'state', 'counts')
if not h[1] then
    redis.call('ZREM', ns .. ':leases', member)
    return { 'kept' }
end
if h[1] ~= ARGV[2] or h[2] ~= ARGV[3] or h[3] ~= 'running' then return { 'kept' } end

local old = redis.call('GET', shard .. ':ledger')
local p = redis.call('HMGET', campaign, 'on_unknown', 'max_tries')
local tries = tonumber(p[2] or '5')
local before = redis.call('GET', shard .. ':unknowns') or ''
local spent = {}
for at = 1, #before, 4 do spent[struct.unpack('<I4', before, at)] = true end
local again, unknown, marked, reasons = 0, 0, {}, {}
local new = string.gsub(old, '()([>A-I])', function(at, byte)
    local charged = byte == '>' and 1 or string.byte(byte) - 63
    if p[1] == 'skip' or spent[at - 1] or charged > tries or charged > 9 then
        unknown = unknown + 1
        reasons[#reasons + 1] = at - 1
        reasons[#reasons + 1] = 'WorkerLost'
        return 'u'
    end
    again = again + 1
    marked[#marked + 1] = struct.pack('<I4', at - 1)
    return string.char(48 + charged)
end)
local delta = {}
count_changes(old, new, delta)
local counts, left = apply_delta(id, unpack_counts(h[4]), delta)
redis.call('SET', shard .. ':ledger', new)
for at = 1, #reasons, 1000 do
    redis.call('HSET', shard .. ':reasons', unpack(reasons, at, math.min(at + 999, #reasons)))
end
if unknown > 0 then
    redis.call('HINCRBY', campaign .. ':stats', 'reason:WorkerLost', unknown)
    add_stat('reason:WorkerLost', unknown)
end
if again > 0 then redis.call('APPEND', shard .. ':unknowns', table.concat(marked)) end
redis.call('HINCRBY', shard, 'epoch', 1)
redis.call('HINCRBY', shard, 'crashes', 1)
redis.call('HSET', shard, 'nonce', '', 'counts', table.concat(counts, ','))
redis.call('HINCRBY', campaign .. ':stats', 'recovered_shards', 1)
add_stat('recovered_shards', 1)
if left == 0 then finish_shard(id, n) else ready_shard(id, n, true) end
expire_stats()
return { 'shard', again, unknown }
