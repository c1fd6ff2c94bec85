#!lua flags=allow-oom
-- Makes parked shards ready whose time has come, 64 at most per call; those of a campaign that is
-- being cancelled end. A time further ahead than its shard was parked for (the clock jumped back)
-- is pulled in.
--
-- ARGV: 1 rank in `deferred` from which 64 times are checked, or -1 for none.
-- Returns {shards, the next rank to check from}.
local deferred = ns .. ':deferred'
local due = redis.call('ZRANGEBYSCORE', deferred, '-inf', now, 'LIMIT', 0, 64)
for _, member in ipairs(due) do
    local id, n = string.match(member, '^(.*):([^:]*)$')
    local state = redis.call('HGET', shard_key(id, n), 'state')
    if state == 'parked' then
        ready_shard(id, n, false)
    elseif not state then
        lose_shard(id, n)
    else
        redis.call('ZREM', deferred, member)
    end
end
local from = tonumber(ARGV[1])
if from >= 0 then
    local page = redis.call('ZRANGE', deferred, from, from + 63, 'WITHSCORES')
    for i = 1, #page, 2 do
        local id, n = string.match(page[i], '^(.*):([^:]*)$')
        local length = redis.call('HGET', shard_key(id, n), 'parked_for')
        if length and tonumber(page[i + 1]) > now + tonumber(length) then
            redis.call('ZADD', deferred, now + tonumber(length), page[i])
        end
    end
    from = #page == 128 and from + 64 or 0
end
expire_stats()
return { #due, from }
