#!lua flags=allow-oom
-- Says that a worker lives and renews the leases it holds, 64 shards at most per call.
--
-- ARGV: 1 worker, 2 lease in ms, 3 number of fields, the fields (name, value …), then
--   (campaign, shard, epoch, nonce) … of shards; a plan is (campaign, plan, '', plan id).
-- Returns {now, places in the list (from 0) of what is not this worker's any more …}.
local worker, lease, fields = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZADD', ns .. ':workers', now, worker)
if fields > 0 then
    redis.call('HSET', ns .. ':worker:' .. worker, 'heartbeat_ms', now, unpack(ARGV, 4, 3 + fields))
end
redis.call('EXPIRE', ns .. ':worker:' .. worker, 86400)
local lost = { now }
for i = 4 + fields, #ARGV, 4 do
    local id, n = ARGV[i], ARGV[i + 1]
    local member, held, lost_it = id .. ':' .. n, false, false
    if n == 'plan' then
        local h = redis.call('HMGET', campaign_key(id), 'plan', 'state')
        held = h[1] == ARGV[i + 3] and h[2] == 'planning'
        lost_it = not held
    else
        local h = redis.call('HMGET', shard_key(id, n), 'epoch', 'nonce', 'state')
        held = h[1] == ARGV[i + 2] and h[2] == ARGV[i + 3] and h[3] == 'running'
        -- A lower epoch than the owner's means that Redis lost the claim: the owner takes it back.
        lost_it = not h[1] or tonumber(h[1]) > tonumber(ARGV[i + 2])
    end
    if held then redis.call('ZADD', ns .. ':leases', now + lease, member)
    elseif lost_it then lost[#lost + 1] = (i - 4 - fields) / 4 end
end
return lost
