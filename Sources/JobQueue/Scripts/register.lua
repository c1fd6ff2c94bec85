#!lua
-- Makes a campaign of a valid job that stands on this worker's list of taken jobs. A pause or a
-- cancel that came before the job is obeyed.
--
-- ARGV: 1 worker, 2 the job as it was taken, 3 id, 4 digest, then campaign fields (name, value …).
-- Returns accepted, duplicate (same content: dropped), conflict (same id, other content) or failed
--   (the same job, which failed): the caller sends these two to the dead letters. Repeating it
--   after a lost reply answers duplicate.
local campaign = campaign_key(ARGV[3])
local known = redis.call('HGET', campaign, 'digest')
if known then
    if known ~= ARGV[4] then return 'conflict' end
    if redis.call('HGET', campaign, 'state') == 'failed' then return 'failed' end
    forget_job(ARGV[1], ARGV[2])
    return 'duplicate'
end
redis.call('HSET', campaign, 'digest', ARGV[4], 'state', 'planning', 'created_ms', now,
    unpack(ARGV, 5))
redis.call('PERSIST', campaign)
redis.call('SET', campaign .. ':job', ARGV[2])
redis.call('ZADD', ns .. ':campaigns', now, ARGV[3])
forget_job(ARGV[1], ARGV[2])
report(ARGV[3], 'planning')
add_stat('jobs_accepted', 1)
if redis.call('HGET', campaign, 'control') == 'cancel' then
    steer(ARGV[3], 'cancel', 'cancelled before the job was taken')
else
    redis.call('RPUSH', ns .. ':plans', ARGV[3])
end
expire_stats()
return 'accepted'
