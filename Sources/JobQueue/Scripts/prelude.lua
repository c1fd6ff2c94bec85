-- Stands before every script. KEYS[1] is the namespace itself: on a cluster it holds a hash tag, so
-- that all keys built from it share its slot. Time is Redis' own, in milliseconds.
local ns = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function campaign_key(id) return ns .. ':campaign:' .. id end
local function shard_key(id, n) return ns .. ':campaign:' .. id .. ':shard:' .. n end

-- Reports a campaign's change of state to backends; the list keeps the newest 1000.
local function report(id, state, reason)
    redis.call('LPUSH', ns .. ':events', cjson.encode({
        campaign = id, state = state, reason = reason or '', at_ms = now }))
    redis.call('LTRIM', ns .. ':events', 0, 999)
end

-- Puts a campaign with ready shards into the ring, at most once.
local function enter_ring(id)
    if redis.call('HSETNX', campaign_key(id), 'in_ring', '1') == 1 then
        redis.call('RPUSH', ns .. ':ring', id)
    end
end

-- The classes of the ledger in the order of a shard's packed `counts`.
local classes = { 'untouched', 'in_flight', 'deferred', 'accepted', 'gone', 'quarantined',
    'rejected', 'skipped', 'expired', 'cancelled', 'unknown' }
local first_terminal = 4
local class_of = {}
for byte, index in pairs({ ['.'] = 1, ['>'] = 2, a = 4, g = 5, q = 6, r = 7, s = 8, x = 9,
    c = 10, u = 11 }) do class_of[string.byte(byte)] = index end
for digit = 49, 57 do class_of[digit] = 3 end
for letter = 65, 73 do class_of[letter] = 2 end

local function unpack_counts(text)
    local counts = {}
    for number in string.gmatch(text, '%-?%d+') do counts[#counts + 1] = tonumber(number) end
    return counts
end

-- Counts the differences of two equally long stretches of a ledger into `delta` and returns what
-- may be written: a terminal byte is never overwritten.
local function count_changes(old, new, delta)
    if old == new then return new end
    local kept
    for start = 1, #new, 200 do
        local stop = math.min(start + 199, #new)
        local before = { string.byte(old, start, stop) }
        local after = { string.byte(new, start, stop) }
        for i = 1, #after do
            local o, n = before[i], after[i]
            if o ~= n then
                local from, to = class_of[o], class_of[n]
                if to == nil then return nil end
                if from >= first_terminal then
                    kept = kept or {}
                    kept[start + i - 1] = o
                elseif from ~= to then
                    delta[from] = (delta[from] or 0) - 1
                    delta[to] = (delta[to] or 0) + 1
                end
            end
        end
    end
    if kept then
        local bytes = {}
        for i = 1, #new do bytes[i] = string.char(kept[i] or string.byte(new, i)) end
        return table.concat(bytes)
    end
    return new
end

-- Adds `sign` times the number of bytes of each class to `delta`; returns how many have no class.
local patterns = { '%.', '[>A-I]', '[1-9]', 'a', 'g', 'q', 'r', 's', 'x', 'c', 'u' }
local order = { 4, 2, 1, 3, 5, 6, 7, 8, 9, 10, 11 }
local function count_classes(bytes, delta, sign)
    local left = #bytes
    for _, index in ipairs(order) do
        if left == 0 then return 0 end
        local _, found = string.gsub(bytes, patterns[index], '')
        if found > 0 then delta[index] = (delta[index] or 0) + sign * found end
        left = left - found
    end
    return left
end

-- Adds a number to a field of the statistics: all time, per 10 s (kept 2 h), per minute (7 days).
local seconds = math.floor(now / 1000)
local buckets = {
    { ns .. ':stats' },
    { ns .. ':stats:10s:' .. (seconds - seconds % 10), 7200 },
    { ns .. ':stats:minute:' .. (seconds - seconds % 60), 604800 },
}
local touched = false
local function add_stat(field, number)
    touched = true
    for i = 1, 3 do redis.call('HINCRBY', buckets[i][1], field, number) end
end
local function expire_stats()
    if not touched then return end
    for i = 2, 3 do redis.call('EXPIRE', buckets[i][1], buckets[i][2]) end
end

-- Carries the differences of one shard over to its counts, its campaign's and everybody's.
-- Returns the shard's new counts and how many of its recipients are not terminal yet.
local function apply_delta(id, counts, delta)
    for index, number in pairs(delta) do
        if number ~= 0 then
            counts[index] = counts[index] + number
            redis.call('HINCRBY', campaign_key(id) .. ':stats', classes[index], number)
            if index >= first_terminal then add_stat(classes[index], number) end
        end
    end
    return counts, counts[1] + counts[2] + counts[3]
end

-- Ends a shard whose recipients are all terminal. The last shard ends the campaign: no other
-- script does.
local function finish_shard(id, n)
    local shard, member = shard_key(id, n), id .. ':' .. n
    redis.call('HSET', shard, 'state', 'done')
    redis.call('HDEL', ns .. ':open', member)
    redis.call('ZREM', ns .. ':leases', member)
    redis.call('ZREM', ns .. ':deferred', member)
    redis.call('DEL', shard .. ':due', shard .. ':unknowns')
    local campaign = campaign_key(id)
    if redis.call('HINCRBY', campaign, 'open_shards', -1) == 0 then
        redis.call('HSET', campaign, 'state', 'completed', 'finished_ms', now)
        report(id, 'completed')
        add_stat('campaigns_completed', 1)
    end
end

-- Makes a shard that nobody owns claimable.
local function ready_shard(id, n, first)
    local shard, member = shard_key(id, n), id .. ':' .. n
    redis.call('HSET', shard, 'state', 'ready', 'owner', '')
    redis.call('HSET', ns .. ':open', member, 'r')
    redis.call('ZREM', ns .. ':leases', member)
    redis.call('ZREM', ns .. ':deferred', member)
    redis.call(first and 'LPUSH' or 'RPUSH', campaign_key(id) .. ':ready', n)
    if redis.call('HGET', campaign_key(id), 'state') == 'running' then enter_ring(id) end
end
