#!lua flags=allow-oom
-- Tells what is left to do: {jobs, controls and chores, plans, claimable campaigns, leases, parked
-- shards that may go on by themselves}. All zero: nothing moves any more unless somebody enqueues
-- or resumes.
local parked = 0
for _, member in ipairs(redis.call('ZRANGEBYSCORE', ns .. ':deferred', '-inf', '+inf',
    'LIMIT', 0, 64)) do
    local id = string.match(member, '^(.*):[^:]*$')
    if redis.call('HGET', campaign_key(id), 'state') == 'running' then parked = parked + 1 end
end
return { redis.call('LLEN', ns .. ':jobs') + redis.call('LLEN', ns .. ':control')
    + redis.call('LLEN', ns .. ':chores'), redis.call('LLEN', ns .. ':plans'),
    redis.call('LLEN', ns .. ':ring'), redis.call('ZCARD', ns .. ':leases'), parked }
