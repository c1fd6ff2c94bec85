#!lua flags=allow-oom
-- Pauses or resumes a campaign.
--
-- ARGV: 1 campaign, 2 pause | resume, 3 reason.
-- Returns {the state now} or {unknown} for a campaign that does not exist.
local id, campaign = ARGV[1], campaign_key(ARGV[1])
local state = redis.call('HGET', campaign, 'state')
if not state then return { 'unknown' } end
redis.call('HSET', campaign, 'control', ARGV[2])
if ARGV[2] == 'pause' and state == 'running' then
    redis.call('HSET', campaign, 'state', 'paused', 'reason', ARGV[3], 'paused_ms', now)
    report(id, 'paused', ARGV[3])
elseif ARGV[2] == 'resume' and state == 'paused' then
    redis.call('HSET', campaign, 'state', 'running', 'reason', '')
    enter_ring(id)
    report(id, 'running')
end
return { redis.call('HGET', campaign, 'state') }
