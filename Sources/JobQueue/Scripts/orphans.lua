#!lua flags=allow-oom
-- Gives the jobs that a dead worker had taken back to the intake, 64 at most per call, and forgets
-- the worker when it holds none. A job at which five workers in a row died becomes a dead letter.
--
-- ARGV: 1 worker, 2 heartbeat age in ms beyond which a worker counts as dead.
-- Returns the number of jobs given back, or -1 when the worker lives.
local limit = 5
local seen = redis.call('ZSCORE', ns .. ':workers', ARGV[1])
if seen and tonumber(seen) > now - tonumber(ARGV[2]) then return -1 end
local claims, moved = ns .. ':claims:' .. ARGV[1], 0
while moved < 64 do
    local job = redis.call('LPOP', claims)
    if not job then break end
    local deaths = redis.call('HINCRBY', ns .. ':job_deaths', job_name(job), 1)
    if deaths < limit then
        redis.call('RPUSH', ns .. ':jobs', job)
    else
        redis.call('HDEL', ns .. ':job_deaths', job_name(job))
        bury(nil, '$', 'ended the ' .. limit .. ' workers that read it; find out why in their logs '
            .. 'before you enqueue it again', job)
    end
    moved = moved + 1
end
if redis.call('EXISTS', claims) == 0 then
    redis.call('ZREM', ns .. ':workers', ARGV[1])
    redis.call('DEL', ns .. ':worker:' .. ARGV[1])
end
expire_stats()
return moved
