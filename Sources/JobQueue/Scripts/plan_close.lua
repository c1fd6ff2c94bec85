#!lua
-- Completes up to 64 shards of a plan: a ledger at full length, counters, the roll-call.
--
-- ARGV: 1 campaign, 2 plan id, 3 first shard, 4 last shard, 5 lease in ms.
-- Returns ok or fenced. Repeating it changes nothing.
local id, campaign = ARGV[1], campaign_key(ARGV[1])
local h = redis.call('HMGET', campaign, 'plan', 'state')
if h[1] ~= ARGV[2] or h[2] ~= 'planning' then return 'fenced' end
for n = tonumber(ARGV[3]), tonumber(ARGV[4]) do
    local shard = shard_key(id, n)
    local s = redis.call('HMGET', shard, 'size', 'state')
    local size = tonumber(s[1] or '0')
    if size > 0 and not s[2] then
        redis.call('SET', shard .. ':ledger', string.rep('.', size))
        redis.call('HSET', shard, 'state', 'ready', 'plan', ARGV[2], 'epoch', 0, 'revision', 0,
            'nonce', '', 'owner', '', 'crashes', 0, 'counts', size .. ',0,0,0,0,0,0,0,0,0,0')
        redis.call('HSET', ns .. ':open', id .. ':' .. n, 'r')
        redis.call('RPUSH', campaign .. ':ready', n)
        redis.call('HINCRBY', campaign .. ':stats', 'untouched', size)
    end
end
redis.call('ZADD', ns .. ':leases', now + tonumber(ARGV[5]), id .. ':plan')
return 'ok'
