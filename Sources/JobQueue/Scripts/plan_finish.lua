#!lua flags=allow-oom
-- Ends planning: the campaign runs, or is paused when somebody asked for that meanwhile. After a
-- planning of more than 2 s its first shard is claimed 2 s later: a Redis that loses the end of the
-- plan has it made again, and nothing must have been sent by the old one. A plan of which Redis
-- lost a part is not finished.
--
-- ARGV: 1 campaign, 2 plan id, 3 shards with recipients, 4 recipients in all.
-- Returns ok, fenced or rolled_back (a part was lost). Repeating it answers ok.
local id, campaign = ARGV[1], campaign_key(ARGV[1])
local h = redis.call('HMGET', campaign, 'plan', 'state', 'control', 'plan_started_ms')
if h[1] ~= ARGV[2] then return 'fenced' end
if h[2] ~= 'planning' then return 'ok' end
local closed = redis.call('HGET', campaign .. ':stats', 'untouched')
if closed ~= ARGV[4] or redis.call('LLEN', campaign .. ':ready') ~= tonumber(ARGV[3]) then
    return 'rolled_back'
end
local state = h[3] == 'pause' and 'paused' or 'running'
redis.call('HDEL', campaign, 'reason')
if state == 'paused' then
    redis.call('HSET', campaign, 'reason', 'paused before it was planned', 'paused_ms', now)
end
redis.call('HSET', campaign, 'state', state, 'open_shards', ARGV[3], 'total', ARGV[4],
    'planned_ms', now)
redis.call('HDEL', campaign, 'plan_written', 'plan_died_at', 'plan_deaths')
if now - tonumber(h[4] or now) > plan_pause then
    redis.call('HSET', campaign, 'claims_from_ms', now + plan_pause)
end
redis.call('ZREM', ns .. ':leases', id .. ':plan')
if state == 'running' then enter_ring(id) else add_chore(id) end
report(id, state)
return 'ok'
