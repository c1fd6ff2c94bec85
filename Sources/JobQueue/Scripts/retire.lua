#!lua flags=allow-oom
-- Removes one part of the campaign that ended longest ago, when that is long enough ago: 64 keys
-- at most. From the first part on its state is `retiring` and it stands first in `finished`, so
-- that any worker completes the removal; the last part frees its id.
--
-- Keys go by UNLINK: of a list or hash of more than 64 elements only the name is taken away here,
-- and another thread of Redis frees the rest, whatever its size. Shorter lists of windows are freed
-- on the spot, which takes up to 15 us for each window of 64 KB: so the windows of such lists are
-- limited, too. HDEL and LTRIM in slices would free every byte on the spot.
--
-- ARGV: 1 time in ms that a campaign is kept after its end, 2 time in ms that passes between two
--   removed parts, whichever workers ask; 0 for none.
-- Returns {none}, {wait} (a part was removed a moment ago), {part, campaign} or {gone, campaign}.
-- Cost: 9 shards at most; 0.2 ms, 1 to 2 ms with the largest windows.
local key_limit = 64
local async_above = 64
local window_limit = 64
local final = { completed = true, cancelled = true, failed = true, inconsistent = true }
local finished, limit = ns .. ':finished', now - tonumber(ARGV[1])
local id = redis.call('ZRANGEBYSCORE', finished, '-inf', limit, 'LIMIT', 0, 1)[1]
if not id then return { 'none' } end
if ARGV[2] ~= '0' and not redis.call('SET', ns .. ':retire_pause', 1, 'NX', 'PX', ARGV[2]) then
    return { 'wait' }
end
local campaign = campaign_key(id)
local h = redis.call('HMGET', campaign, 'state', 'shards', 'retired', 'finished_ms')
local state, shards, n = h[1], tonumber(h[2] or '0'), tonumber(h[3] or '0')
if state ~= 'retiring' then
    local ended = tonumber(h[4] or '0')
    if not state then
        -- Somebody removed the campaign by hand.
        redis.call('ZREM', ns .. ':campaigns', id)
    elseif final[state] and ended <= limit then
        redis.call('HSET', campaign, 'state', 'retiring', 'retired', 0)
        redis.call('ZADD', finished, 0, id)
        redis.call('ZREM', ns .. ':campaigns', id)
        for _, list in ipairs({ ':chores', ':ring', ':plans' }) do
            redis.call('LREM', ns .. list, 0, id)
        end
        redis.call('ZREM', ns .. ':leases', id .. ':plan')
        state = 'retiring'
    end
    if state ~= 'retiring' then
        if final[state] then redis.call('ZADD', finished, ended, id)
        else redis.call('ZREM', finished, id) end
        return { 'part', id }
    end
end
local keys, members = {}, {}
local parts = { '', ':recipients', ':ledger', ':reasons', ':due', ':unknowns', ':suspects' }
local windows = 0
while n < shards and #keys + #parts <= key_limit do
    local length = redis.call('LLEN', shard_key(id, n) .. ':recipients')
    if length <= async_above then windows = windows + length end
    if windows > window_limit and #members > 0 then break end
    for _, part in ipairs(parts) do keys[#keys + 1] = shard_key(id, n) .. part end
    members[#members + 1] = id .. ':' .. n
    n = n + 1
end
local is_last = n >= shards and #keys + 4 <= key_limit
if is_last then
    for _, part in ipairs({ '', ':job', ':stats', ':ready' }) do
        keys[#keys + 1] = campaign .. part
    end
    redis.call('ZREM', finished, id)
else
    redis.call('HSET', campaign, 'retired', n)
end
redis.call('UNLINK', unpack(keys))
if #members > 0 then
    for _, roll in ipairs({ ':open', ':held' }) do
        redis.call('HDEL', ns .. roll, unpack(members))
    end
    for _, times in ipairs({ ':leases', ':deferred' }) do
        redis.call('ZREM', ns .. times, unpack(members))
    end
end
return { is_last and 'gone' or 'part', id }
