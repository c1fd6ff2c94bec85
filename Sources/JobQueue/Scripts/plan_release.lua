#!lua flags=allow-oom
-- Gives an unfinished plan back, so that another worker makes it anew.
--
-- ARGV: 1 campaign, 2 plan id.
-- Returns ok or fenced.
local id, campaign = ARGV[1], campaign_key(ARGV[1])
local h = redis.call('HMGET', campaign, 'plan', 'state')
if h[1] ~= ARGV[2] or h[2] ~= 'planning' then return 'fenced' end
redis.call('HSET', campaign, 'plan', '', 'planner', '')
redis.call('ZREM', ns .. ':leases', id .. ':plan')
redis.call('LPUSH', ns .. ':plans', id)
return 'ok'
