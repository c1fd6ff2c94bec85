#!lua flags=allow-oom
-- Obeys what backends pushed onto the list `control`, 64 entries at most per call: texts of the
-- form `pause ID`, `resume ID` or `cancel ID`. One for a campaign that is not known yet is obeyed
-- when its job is taken, within 7 days. Any other text becomes a dead letter.
--
-- ARGV: campaigns whose state the caller wants to know.
-- Returns {the number of entries, those of the campaigns that do not run …}.
local taken = 0
while taken < 64 do
    local text = redis.call('RPOP', ns .. ':control')
    if not text then break end
    taken = taken + 1
    local action, id = string.match(text, '^%s*(%a+)%s+([%w._-]+)%s*$')
    local known = action == 'pause' or action == 'resume' or action == 'cancel'
    if not known or #id > 64 then
        bury(nil, '$', 'is no control; push `pause ID`, `resume ID` or `cancel ID` onto '
            .. ns .. ':control', string.gsub(string.sub(text, 1, 1000), '[^\32-\126]', '?'))
    elseif not steer(id, action, action .. ' by the backend') then
        redis.call('HSET', campaign_key(id), 'control', action)
        redis.call('EXPIRE', campaign_key(id), 604800)
    end
end
expire_stats()
local answer = { taken }
for _, id in ipairs(ARGV) do
    if redis.call('HGET', campaign_key(id), 'state') ~= 'running' then answer[#answer + 1] = id end
end
return answer
