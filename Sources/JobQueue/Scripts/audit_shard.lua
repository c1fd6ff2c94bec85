#!lua flags=allow-oom
-- Recounts one shard from its ledger and compares with the counts the scripts kept.
--
-- ARGV: 1 campaign, 2 shard.
-- Returns {recounted, kept} as packed counts, or {} for a shard without recipients. The two are
--   read at one moment, so they agree at any moment. Also gives a shard back that says it runs but
--   holds no lease: {recounted, kept, 'repaired'}.
local id, n = ARGV[1], ARGV[2]
local shard = shard_key(id, n)
local h = redis.call('HMGET', shard, 'counts', 'state')
if not h[1] then return {} end
local counts = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
local unreadable = count_classes(redis.call('GET', shard .. ':ledger') or '', counts, 1)
local found = table.concat(counts, ',')
if unreadable > 0 then found = found .. ',unreadable=' .. unreadable end
local answer = { found, h[1] }
if h[2] == 'running' and not redis.call('ZSCORE', ns .. ':leases', id .. ':' .. n) then
    redis.call('ZADD', ns .. ':leases', now - 1, id .. ':' .. n)
    answer[3] = 'repaired'
end
return answer
