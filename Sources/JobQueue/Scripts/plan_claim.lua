#!lua flags=allow-oom
-- Hands one campaign that needs a plan to a worker, under a lease and a new plan id.
--
-- ARGV: 1 worker, 2 new plan id (random), 3 lease in ms.
-- Returns {none} or {plan, campaign, job, shards of an earlier, unfinished plan}. The same plan id
--   again gets the same campaign.
if claims_pause() then return { 'none' } end
local plans = ns .. ':plans'
local worker = ns .. ':worker:' .. ARGV[1]
local last = redis.call('HMGET', worker, 'plan_id', 'plan_campaign')
local id
if last[1] == ARGV[2] then
    local h = redis.call('HMGET', campaign_key(last[2]), 'plan', 'state')
    if h[1] == ARGV[2] and h[2] == 'planning' then id = last[2] end
end
for _ = 1, 64 do
    if id then break end
    id = redis.call('LPOP', plans)
    if not id then return { 'none' } end
    if redis.call('HGET', campaign_key(id), 'state') ~= 'planning' then id = nil end
end
if not id then return { 'none' } end
local campaign = campaign_key(id)
redis.call('HSET', campaign, 'plan', ARGV[2], 'planner', ARGV[1], 'plan_written', 0)
redis.call('HSETNX', campaign, 'plan_started_ms', now)
redis.call('HDEL', campaign, 'reason')  -- why an earlier planner waited (plan_note.lua)
redis.call('HSET', worker, 'plan_id', ARGV[2], 'plan_campaign', id)
redis.call('ZADD', ns .. ':leases', now + tonumber(ARGV[3]), id .. ':plan')
return { 'plan', id, redis.call('GET', campaign .. ':job'),
    redis.call('HGET', campaign, 'shards') or '0' }
