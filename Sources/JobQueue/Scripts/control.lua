#!lua flags=allow-oom
-- Pauses, resumes or cancels a campaign. Works also when Redis is out of memory.
--
-- ARGV: 1 campaign, 2 pause | resume | cancel, 3 reason, 4 `ahead`: obeyed also when the job is
--   taken later, within 7 days; else ''.
-- Returns {the state now}; {ahead}; or {unknown} for a campaign that does not exist.
local state = steer(ARGV[1], ARGV[2], ARGV[3])
if not state and ARGV[4] == 'ahead' then
    redis.call('HSET', campaign_key(ARGV[1]), 'control', ARGV[2])
    redis.call('EXPIRE', campaign_key(ARGV[1]), 604800)
    return { 'ahead' }
end
expire_stats()
return { state or 'unknown' }
