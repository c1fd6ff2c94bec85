#!lua flags=allow-oom
-- Gives the jobs that a dead worker had taken back to the intake, 64 at most per call, and forgets
-- the worker when it holds none.
--
-- ARGV: 1 worker, 2 heartbeat age in ms beyond which a worker counts as dead.
-- Returns the number of jobs given back, or -1 when the worker lives.
local seen = redis.call('ZSCORE', ns .. ':workers', ARGV[1])
if seen and tonumber(seen) > now - tonumber(ARGV[2]) then return -1 end
local claims, moved = ns .. ':claims:' .. ARGV[1], 0
while moved < 64 and redis.call('LMOVE', claims, ns .. ':jobs', 'LEFT', 'RIGHT') do
    moved = moved + 1
end
if redis.call('EXISTS', claims) == 0 then
    redis.call('ZREM', ns .. ':workers', ARGV[1])
    redis.call('DEL', ns .. ':worker:' .. ARGV[1])
end
return moved
