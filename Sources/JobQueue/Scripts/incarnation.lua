#!lua flags=allow-oom
-- Notes which Redis this is. When it is another one than before (a restart, a failover, perhaps
-- with older data), nobody claims for 3 s, so that living owners take their shards back first.
--
-- ARGV: 1 run id and replication id.
-- Returns 1 when it changed, 0 otherwise.
local known = redis.call('GET', ns .. ':incarnation')
if known == ARGV[1] then return 0 end
redis.call('SET', ns .. ':incarnation', ARGV[1])
if not known then return 0 end
redis.call('SET', ns .. ':claims_from', now + change_pause, 'PX', 60000)
return 1
