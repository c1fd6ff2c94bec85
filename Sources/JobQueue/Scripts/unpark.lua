#!lua flags=allow-oom
-- Makes parked shards ready whose time has come, 64 at most per call.
--
-- Returns the number of shards.
local due = redis.call('ZRANGEBYSCORE', ns .. ':deferred', '-inf', now, 'LIMIT', 0, 64)
for _, member in ipairs(due) do
    local id, n = string.match(member, '^(.*):([^:]*)$')
    if redis.call('HGET', shard_key(id, n), 'state') == 'parked' then
        ready_shard(id, n, false)
    else
        redis.call('ZREM', ns .. ':deferred', member)
    end
end
return #due
