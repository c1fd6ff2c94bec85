#!lua flags=allow-oom
-- Adds up the counts of a campaign's shards and compares them with the campaign's counters, all at
-- one moment.
--
-- ARGV: 1 campaign.
-- Returns {state, total, open_shards, shards not done, sum …11, counters …11}.
-- Cost: O(shards), about 2 µs each.
local id, campaign = ARGV[1], campaign_key(ARGV[1])
local h = redis.call('HMGET', campaign, 'state', 'total', 'open_shards', 'shards')
local sum, open = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 0
for n = 0, tonumber(h[4] or '0') - 1 do
    local s = redis.call('HMGET', shard_key(id, n), 'counts', 'state')
    if s[1] then
        local counts = unpack_counts(s[1])
        for index = 1, 11 do sum[index] = sum[index] + counts[index] end
        if s[2] ~= 'done' then open = open + 1 end
    end
end
local answer = { h[1] or '', h[2] or '0', h[3] or '0', open }
for index = 1, 11 do answer[#answer + 1] = sum[index] end
local kept = redis.call('HMGET', campaign .. ':stats', unpack(classes))
for index = 1, 11 do answer[#answer + 1] = kept[index] or '0' end
return answer
