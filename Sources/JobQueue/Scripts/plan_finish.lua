#!lua flags=allow-oom
-- Ends planning: the campaign runs, or is paused when somebody asked for that meanwhile.
--
-- ARGV: 1 campaign, 2 plan id, 3 shards with recipients, 4 recipients in all.
-- Returns ok or fenced. Repeating it answers ok.
local id, campaign = ARGV[1], campaign_key(ARGV[1])
local h = redis.call('HMGET', campaign, 'plan', 'state', 'control')
if h[1] ~= ARGV[2] then return 'fenced' end
if h[2] ~= 'planning' then return 'ok' end
local state = h[3] == 'pause' and 'paused' or 'running'
redis.call('HSET', campaign, 'state', state, 'open_shards', ARGV[3], 'total', ARGV[4],
    'planned_ms', now)
redis.call('ZREM', ns .. ':leases', id .. ':plan')
if state == 'running' then enter_ring(id) end
report(id, state)
return 'ok'
