#!lua
-- Adds packed windows of recipients to shards of a plan. Refused as a whole when Redis is out of
-- memory (no allow-oom above).
--
-- ARGV: 1 campaign, 2 plan id, 3 call number from 1, 4 lease in ms, then (shard, recipients,
--   window) …
-- Returns ok, fenced or rolled_back (earlier calls were lost). A call number that was there before
--   changes nothing, also when it comes late.
local id, campaign = ARGV[1], campaign_key(ARGV[1])
local h = redis.call('HMGET', campaign, 'plan', 'state', 'plan_call')
if h[1] ~= ARGV[2] or h[2] ~= 'planning' then return 'fenced' end
local plan, number = string.match(h[3] or '', '^(.*):(%d+)$')
local last, call = tonumber(number), tonumber(ARGV[3])
if plan ~= ARGV[2] or call > last + 1 then return 'rolled_back' end
if call <= last then return 'ok' end
local written = 0
for i = 5, #ARGV, 3 do
    written = written + tonumber(ARGV[i + 1])
    local shard = shard_key(id, ARGV[i])
    redis.call('RPUSH', shard .. ':recipients', ARGV[i + 2])
    redis.call('HINCRBY', shard, 'size', ARGV[i + 1])
end
redis.call('HSET', campaign, 'plan_call', ARGV[2] .. ':' .. ARGV[3])
redis.call('HINCRBY', campaign, 'plan_written', written)
redis.call('ZADD', ns .. ':leases', now + tonumber(ARGV[4]), id .. ':plan')
return 'ok'
