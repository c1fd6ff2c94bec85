#!lua flags=allow-oom
-- Removes the shards of an unfinished plan before it is made anew, 32 at most per call. Once
-- its last call was there it removes nothing: then it is one that comes late.
--
-- ARGV: 1 campaign, 2 plan id, 3 first shard, 4 last shard, 5 shards of the new plan (in
--   the last call only), 6 lease in ms.
-- Returns ok or fenced.
local id, campaign = ARGV[1], campaign_key(ARGV[1])
local h = redis.call('HMGET', campaign, 'plan', 'state', 'plan_call')
if h[1] ~= ARGV[2] or h[2] ~= 'planning' then return 'fenced' end
if string.find(h[3] or '', ARGV[2] .. ':', 1, true) == 1 then return 'ok' end
for n = tonumber(ARGV[3]), tonumber(ARGV[4]) do
    local shard = shard_key(id, n)
    redis.call('UNLINK', shard, shard .. ':recipients', shard .. ':ledger', shard .. ':reasons',
        shard .. ':due', shard .. ':unknowns')
    redis.call('HDEL', ns .. ':open', id .. ':' .. n)
end
redis.call('DEL', campaign .. ':ready', campaign .. ':stats')
if ARGV[5] ~= '' then
    redis.call('HSET', campaign, 'shards', ARGV[5], 'plan_call', ARGV[2] .. ':0')
end
redis.call('ZADD', ns .. ':leases', now + tonumber(ARGV[6]), id .. ':plan')
return 'ok'
