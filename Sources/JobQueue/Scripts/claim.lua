#!lua flags=allow-oom
-- Hands one ready shard to a worker, campaigns in turn by weight. Marks nothing.
--
-- ARGV: 1 worker, 2 claim nonce, 3 lease in ms, 4 campaigns to pass over: `,id,id,` or ''.
-- Returns {none} or {shard, campaign, shard number, plan id, epoch, ledger, due, unknowns, now,
--   suspects}.
--   The same worker and nonce again get the same shard: a lost reply costs nothing.
-- Cost: O(64) at most, and one ledger.
local worker = ns .. ':worker:' .. ARGV[1]
local function hand_out(id, n)
    local shard = shard_key(id, n)
    local h = redis.call('HMGET', shard, 'plan', 'epoch')
    return { 'shard', id, n, h[1], h[2], redis.call('GET', shard .. ':ledger') or '',
        redis.call('GET', shard .. ':due') or '', redis.call('GET', shard .. ':unknowns') or '',
        now, redis.call('GET', shard .. ':suspects') or '' }
end
local last = redis.call('HMGET', worker, 'claim_nonce', 'claim_campaign', 'claim_shard')
if last[1] == ARGV[2] and
    redis.call('HGET', shard_key(last[2], last[3]), 'nonce') == ARGV[2] then
    return hand_out(last[2], last[3])
end
if claims_pause() then return { 'none' } end
local ring = ns .. ':ring'
local looks, lost = math.min(64, redis.call('LLEN', ring)), 0
while looks > 0 do
    looks = looks - 1
    local id = redis.call('LINDEX', ring, 0)
    local campaign = campaign_key(id)
    if string.find(ARGV[4], ',' .. id .. ',', 1, true) then
        redis.call('LMOVE', ring, ring, 'LEFT', 'RIGHT')
    else
        local h = redis.call('HMGET', campaign, 'state', 'weight', 'claims_from_ms')
        local early = is_to_come(h[3], plan_pause)
        local n = h[1] == 'running' and not early and redis.call('LPOP', campaign .. ':ready')
        if early then
            redis.call('LMOVE', ring, ring, 'LEFT', 'RIGHT')
        elseif not n then
            redis.call('LPOP', ring)
            redis.call('HDEL', campaign, 'in_ring', 'turn')
        else
            if redis.call('HINCRBY', campaign, 'turn', 1) >= tonumber(h[2] or '1') then
                redis.call('HSET', campaign, 'turn', 0)
                redis.call('LMOVE', ring, ring, 'LEFT', 'RIGHT')
            end
            local shard, member = shard_key(id, n), id .. ':' .. n
            local s = redis.call('HMGET', shard, 'state', 'epoch')
            local shard_state = s[1]
            if not shard_state then
                lose_shard(id, n)
                lost = lost + 1
                if lost < 64 then looks = looks + 1 end
            elseif shard_state == 'ready' then
                redis.call('HSET', shard, 'state', 'running', 'owner', ARGV[1], 'nonce', ARGV[2],
                    'revision', 0, 'epoch', next_epoch(s[2]))
                call_roll(id, n, 'w')
                redis.call('ZADD', ns .. ':leases', now + tonumber(ARGV[3]), member)
                redis.call('HSET', worker, 'claim_nonce', ARGV[2], 'claim_campaign', id,
                    'claim_shard', n)
                return hand_out(id, n)
            end
        end
    end
end
return { 'none' }
