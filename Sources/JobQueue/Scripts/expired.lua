#!lua flags=allow-oom
-- First look of the recovery: leases that have run out, and orphaned lists of taken jobs.
--
-- ARGV: 1 lease in ms, 2 heartbeat age in ms beyond which a worker counts as dead.
-- Returns {{member, epoch or plan id, revision} …, {worker …}}, 64 each at most. A lease further
--   ahead than one lifetime and a heartbeat of the future (the clock jumped back) are pulled in.
local lease = tonumber(ARGV[1])
for _, member in ipairs(redis.call('ZRANGEBYSCORE', ns .. ':leases', '(' .. now + lease, '+inf',
    'LIMIT', 0, 64)) do
    redis.call('ZADD', ns .. ':leases', now + lease, member)
end
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', ns .. ':workers', '(' .. now, '+inf',
    'LIMIT', 0, 64)) do
    redis.call('ZADD', ns .. ':workers', now, worker)
end
local found = {}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', ns .. ':leases', '-inf', now,
    'LIMIT', 0, 64)) do
    local id, n = string.match(member, '^(.*):([^:]*)$')
    if n == 'plan' then
        found[#found + 1] = { member, redis.call('HGET', campaign_key(id), 'plan') or '', '' }
    else
        local h = redis.call('HMGET', shard_key(id, n), 'epoch', 'revision')
        found[#found + 1] = { member, h[1] or '', h[2] or '' }
    end
end
return { found, redis.call('ZRANGEBYSCORE', ns .. ':workers', '-inf', now - tonumber(ARGV[2]),
    'LIMIT', 0, 64) }
