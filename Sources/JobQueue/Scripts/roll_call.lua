#!lua flags=allow-oom
-- Looks whether every open shard can still go on: about 64 of them per call, going round. Peal
-- leaves none behind; this is for keys that somebody deleted.
--
-- ARGV: 1 cursor of the last call, 0 at first.
-- Returns {next cursor, shards that were mended}.
-- Cost: O(64), and for ready shards O(ready shards of the campaign) of a fast scan.
local page = redis.call('HSCAN', ns .. ':open', ARGV[1], 'COUNT', 64)
local mended = 0
for i = 1, #page[2], 2 do
    local member = page[2][i]
    local id, n = string.match(member, '^(.*):([^:]*)$')
    local state = redis.call('HGET', shard_key(id, n), 'state')
    local campaign = campaign_key(id)
    if redis.call('EXISTS', campaign) == 0 then
        leave_roll(id, n)
        redis.call('ZREM', ns .. ':leases', member)
        redis.call('ZREM', ns .. ':deferred', member)
    elseif redis.call('HGET', campaign, 'state') == 'planning' then
        mended = mended - 1  -- its shards are not all there yet
    elseif not state then
        lose_shard(id, n)
    elseif state == 'running' and not redis.call('ZSCORE', ns .. ':leases', member) then
        redis.call('ZADD', ns .. ':leases', now - 1, member)
    elseif state == 'parked' and not redis.call('ZSCORE', ns .. ':deferred', member) then
        redis.call('ZADD', ns .. ':deferred', now, member)
    elseif state == 'ready' and not redis.call('LPOS', campaign .. ':ready', n) then
        ready_shard(id, n, false)
    elseif state == 'done' then
        leave_roll(id, n)
    else
        mended = mended - 1
    end
    mended = mended + 1
end
expire_stats()
return { page[1], mended }
