#!lua flags=allow-oom
-- Gives a shard back to its living owner after Redis lost the claim: the plan is the owner's and
-- the stored epoch is not greater than the owner's. Whoever claimed it meanwhile is fenced by the
-- new epoch. The owner writes its whole ledger next.
--
-- ARGV: 1 campaign, 2 shard, 3 plan id, 4 epoch, 5 claim nonce, 6 worker, 7 lease in ms.
-- Returns the new epoch, or 0: the shard is rightly somebody else's. Repeating it after a lost
--   reply answers the same epoch.
local id, n = ARGV[1], ARGV[2]
local shard, member = shard_key(id, n), id .. ':' .. n
local h = redis.call('HMGET', shard, 'plan', 'epoch', 'state', 'nonce')
if h[1] == ARGV[3] and h[4] == ARGV[5] and h[3] == 'running' and tonumber(h[2]) > tonumber(ARGV[4])
then
    redis.call('ZADD', ns .. ':leases', now + tonumber(ARGV[7]), member)
    return tonumber(h[2])
end
if not h[1] or h[1] ~= ARGV[3] or tonumber(h[2]) > tonumber(ARGV[4]) or h[3] == 'done' then
    return 0
end
local epoch = next_epoch(ARGV[4])
if h[3] == 'ready' then redis.call('LREM', campaign_key(id) .. ':ready', 1, n) end
redis.call('ZREM', ns .. ':deferred', member)
redis.call('HSET', shard, 'epoch', epoch, 'nonce', ARGV[5], 'state', 'running', 'owner', ARGV[6],
    'revision', 0)
call_roll(id, n, 'w')
redis.call('ZADD', ns .. ':leases', now + tonumber(ARGV[7]), member)
return epoch
