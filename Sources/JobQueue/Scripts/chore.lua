#!lua flags=allow-oom
-- Does one part of the work on a campaign's shards that a change of its state calls for: 64 shards
-- at most per call, and not many more than 64 KB of ledgers.
--
-- paused, running: moves the shards between `held` and `open`.
-- cancelling: ends every shard that nobody works on. Living owners end theirs when they give them
--   back, the recovery ends those of the dead.
-- cancelled, failed: removes the shards of a plan that was not finished.
-- Returns 1 when there was something to do, else 0.
local chores = ns .. ':chores'
local id = redis.call('LINDEX', chores, 0)
if not id then return 0 end
local campaign = campaign_key(id)
local h = redis.call('HMGET', campaign, 'state', 'chore', 'shards', 'planned_ms')
local state, from, shards = h[1], tonumber(h[2] or '0'), tonumber(h[3] or '0')
local n, bytes = from, 0
while n < shards and n < from + 64 and bytes < 65536 do
    local shard, member = shard_key(id, n), id .. ':' .. n
    if state == 'paused' or state == 'running' then
        local here, there = ns .. ':open', ns .. ':held'
        if state == 'running' then here, there = there, here end
        local letter = redis.call('HGET', here, member)
        if letter then
            redis.call('HSET', there, member, letter)
            redis.call('HDEL', here, member)
        end
    elseif state == 'cancelling' then
        local s = redis.call('HMGET', shard, 'state', 'size')
        if s[1] == 'ready' or s[1] == 'parked' then
            bytes = bytes + tonumber(s[2] or '0')
            sweep_shard(id, n)
        elseif s[1] == 'running' and not redis.call('ZSCORE', ns .. ':leases', member) then
            redis.call('ZADD', ns .. ':leases', now - 1, member)
        elseif not s[1] then
            lose_shard(id, n)
        end
    elseif not h[4] then
        redis.call('UNLINK', shard, shard .. ':recipients', shard .. ':ledger')
        leave_roll(id, n)
    end
    n = n + 1
end
if n >= shards then
    redis.call('LPOP', chores)
    redis.call('HDEL', campaign, 'chore', 'in_chores')
else
    redis.call('HSET', campaign, 'chore', n)
    redis.call('LMOVE', chores, chores, 'LEFT', 'RIGHT')
end
expire_stats()
return 1
