#!lua flags=allow-oom
-- Ends a campaign that cannot be planned; its job becomes a dead letter.
--
-- ARGV: 1 campaign, 2 plan id, 3 reason, 4 the dead letter (JSON).
-- Returns ok or fenced.
local id, campaign = ARGV[1], campaign_key(ARGV[1])
local h = redis.call('HMGET', campaign, 'plan', 'state')
if h[1] ~= ARGV[2] or h[2] ~= 'planning' then return 'fenced' end
redis.call('LPUSH', ns .. ':dead', ARGV[4])
redis.call('ZREM', ns .. ':leases', id .. ':plan')
fail_plan(id, ARGV[3])
add_stat('jobs_dead', 1)
expire_stats()
return 'ok'
