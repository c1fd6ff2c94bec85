#!lua flags=allow-oom
-- Says why a plan waits, or that it goes on: the campaign's `reason` while it is planned. Works
-- also when Redis is out of memory, which is what plans wait for.
--
-- ARGV: 1 campaign, 2 plan id, 3 reason, '' when it goes on.
-- Returns ok or fenced.
local campaign = campaign_key(ARGV[1])
local h = redis.call('HMGET', campaign, 'plan', 'state')
if h[1] ~= ARGV[2] or h[2] ~= 'planning' then return 'fenced' end
if ARGV[3] == '' then redis.call('HDEL', campaign, 'reason')
else redis.call('HSET', campaign, 'reason', ARGV[3]) end
return 'ok'
