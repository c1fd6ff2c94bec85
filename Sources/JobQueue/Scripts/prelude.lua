-- Stands before every script. KEYS[1] is the namespace itself: on a cluster it holds a hash tag, so
-- that all keys built from it share its slot. Time is Redis' own, in milliseconds.
local ns = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function campaign_key(id) return ns .. ':campaign:' .. id end
local function shard_key(id, n) return ns .. ':campaign:' .. id .. ':shard:' .. n end

-- The epoch of the next claim of a shard. It follows the clock, so that a Redis that was rolled
-- back gives no epoch away that a lost claim had: the owner of that one would count as the rightful
-- one and take the shard from whoever claimed it since.
local function next_epoch(epoch) return math.max(tonumber(epoch) + 1, now) end

-- Times in ms for which nobody claims: after a change of Redis, and after a long planning.
local change_pause, plan_pause = 3000, 2000

-- Whether a time that was set `length` ms ahead is still to come. One that is further ahead was set
-- before the clock jumped back, and is over.
local function is_to_come(time, length)
    time = tonumber(time or '0')
    return time > now and time <= now + length
end

-- Whether nobody claims now, so that living owners take their shards back first after a change of
-- Redis.
local function claims_pause()
    return is_to_come(redis.call('GET', ns .. ':claims_from'), change_pause)
end

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

-- Has the work on a campaign's shards done that a new state calls for, in parts (see chore.lua).
local function add_chore(id)
    redis.call('HSET', campaign_key(id), 'chore', 0)
    if redis.call('HSETNX', campaign_key(id), 'in_chores', '1') == 1 then
        redis.call('RPUSH', ns .. ':chores', id)
    end
end

-- Writes a shard into the roll-call: `open` is what autoscalers watch, `held` is for the shards of
-- campaigns that are paused. The letter is r (ready), w (worked on) or p (parked).
local function call_roll(id, n, letter)
    local member = id .. ':' .. n
    local paused = redis.call('HGET', campaign_key(id), 'state') == 'paused'
    redis.call('HSET', ns .. (paused and ':held' or ':open'), member, letter)
    redis.call('HDEL', ns .. (paused and ':open' or ':held'), member)
end

local function leave_roll(id, n)
    redis.call('HDEL', ns .. ':open', id .. ':' .. n)
    redis.call('HDEL', ns .. ':held', id .. ':' .. n)
end

-- Ends a campaign; it is cleaned away when it is old enough (retire.lua).
local function end_campaign(id, state, reason)
    redis.call('HSET', campaign_key(id), 'state', state, 'finished_ms', now)
    if reason then redis.call('HSET', campaign_key(id), 'reason', reason) end
    redis.call('ZADD', ns .. ':finished', now, id)
    redis.call('DEL', campaign_key(id) .. ':ready')  -- shards that were swept still stand there
    report(id, state, reason)
    add_stat('campaigns_' .. state, 1)
end

-- Ends a campaign whose plan cannot be made, and has the parts of it removed.
local function fail_plan(id, reason)
    redis.call('DEL', campaign_key(id) .. ':stats', campaign_key(id) .. ':ready')
    add_chore(id)
    end_campaign(id, 'failed', reason)
end

-- One shard less; the last one ends the campaign: nothing else does.
local function close_shard(id)
    local campaign = campaign_key(id)
    if redis.call('HINCRBY', campaign, 'open_shards', -1) ~= 0 then return end
    local h = redis.call('HMGET', campaign, 'state', 'lost_shards', 'total')
    if h[2] then
        local left = 0
        for _, kept in ipairs(redis.call('HMGET', campaign .. ':stats', unpack(classes, 1, 3))) do
            left = left + tonumber(kept or '0')
        end
        end_campaign(id, 'inconsistent', h[2] .. ' of its shards vanished from Redis; what became '
            .. 'of ' .. left .. ' recipients is not known')
    else
        end_campaign(id, h[1] == 'cancelling' and 'cancelled' or 'completed')
    end
end

-- Ends a shard whose recipients are all terminal.
local function finish_shard(id, n)
    local shard, member = shard_key(id, n), id .. ':' .. n
    redis.call('HSET', shard, 'state', 'done')
    leave_roll(id, n)
    redis.call('ZREM', ns .. ':leases', member)
    redis.call('ZREM', ns .. ':deferred', member)
    redis.call('DEL', shard .. ':due', shard .. ':unknowns', shard .. ':suspects')
    close_shard(id)
end

-- Notes that the keys of a shard are gone, which only somebody else can have done: the campaign
-- must not wait for it for ever, and must not end as if all were well.
local function lose_shard(id, n)
    local member = id .. ':' .. n
    redis.call('ZREM', ns .. ':leases', member)
    redis.call('ZREM', ns .. ':deferred', member)
    local known = redis.call('HEXISTS', ns .. ':open', member) == 1
        or redis.call('HEXISTS', ns .. ':held', member) == 1
    if not known or redis.call('EXISTS', campaign_key(id)) == 0 then return end
    leave_roll(id, n)
    redis.call('HINCRBY', campaign_key(id), 'lost_shards', 1)
    close_shard(id)
end

-- Cancels a shard that nobody works on: what was not sent ends as cancelled, what was in flight as
-- unknown.
local function sweep_shard(id, n)
    local shard = shard_key(id, n)
    local counts = unpack_counts(redis.call('HGET', shard, 'counts'))
    local ledger = redis.call('GET', shard .. ':ledger')
    ledger = string.gsub(string.gsub(ledger, '[.1-9]', 'c'), '[>A-I]', 'u')
    redis.call('SET', shard .. ':ledger', ledger)
    local delta = { [1] = -counts[1], [2] = -counts[2], [3] = -counts[3],
        [10] = counts[1] + counts[3], [11] = counts[2] }
    counts = apply_delta(id, counts, delta)
    redis.call('HSET', shard, 'counts', table.concat(counts, ','), 'owner', '')
    finish_shard(id, n)
end

-- Makes a shard that nobody owns claimable, or ends it when its campaign is being cancelled.
-- Returns whether it ended.
local function ready_shard(id, n, first)
    local state = redis.call('HGET', campaign_key(id), 'state')
    if state == 'cancelling' then
        sweep_shard(id, n)
        return true
    end
    local shard, member = shard_key(id, n), id .. ':' .. n
    redis.call('HSET', shard, 'state', 'ready', 'owner', '')
    call_roll(id, n, 'r')
    redis.call('ZREM', ns .. ':leases', member)
    redis.call('ZREM', ns .. ':deferred', member)
    redis.call(first and 'LPUSH' or 'RPUSH', campaign_key(id) .. ':ready', n)
    if state == 'running' then enter_ring(id) end
    return false
end

-- A short name for a job's text, to count the workers that died at it.
local function job_name(job) return redis.sha1hex(string.sub(job, 1, 65536)) .. '.' .. #job end

-- Takes a job off a worker's list of taken jobs; returns 0 when it was taken off before.
local function forget_job(worker, job)
    redis.call('HDEL', ns .. ':job_deaths', job_name(job))
    return redis.call('LREM', ns .. ':claims:' .. worker, 1, job)
end

-- Sends a text that cannot be used to the dead letters, with what is wrong with it and where.
local function bury(id, path, message, text)
    redis.call('LPUSH', ns .. ':dead', cjson.encode({
        id = id or cjson.null, faults = { { path = path, message = message } }, job = text,
        worker = '', at_ms = now }))
    add_stat('jobs_dead', 1)
end

-- Pauses, resumes or cancels a campaign; returns the state it is in now. What was asked for before
-- the plan exists is obeyed when it does.
local function steer(id, action, reason)
    local campaign = campaign_key(id)
    local state = redis.call('HGET', campaign, 'state')
    if not state then return nil end
    if action == 'pause' and state == 'running' then
        redis.call('HSET', campaign, 'state', 'paused', 'reason', reason, 'paused_ms', now)
        add_chore(id)
        report(id, 'paused', reason)
    elseif action == 'resume' and state == 'paused' then
        redis.call('HSET', campaign, 'state', 'running', 'reason', '')
        add_chore(id)
        enter_ring(id)
        report(id, 'running')
    elseif action == 'cancel' and (state == 'running' or state == 'paused') then
        redis.call('HSET', campaign, 'state', 'cancelling', 'reason', reason)
        add_chore(id)
        report(id, 'cancelling', reason)
    elseif action == 'cancel' and state == 'planning' then
        -- Nothing was sent, and nobody was counted for good: there is no account to close.
        redis.call('HSET', campaign, 'plan', '', 'total', 0, 'open_shards', 0)
        redis.call('DEL', campaign .. ':stats', campaign .. ':ready')
        redis.call('LREM', ns .. ':plans', 1, id)
        redis.call('ZREM', ns .. ':leases', id .. ':plan')
        add_chore(id)
        end_campaign(id, 'cancelled', reason .. '; it was not planned yet, nothing was sent')
    elseif state ~= 'planning' then
        return state
    end
    redis.call('HSET', campaign, 'control', action)
    return redis.call('HGET', campaign, 'state')
end
