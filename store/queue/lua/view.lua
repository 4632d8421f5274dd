-- Read runs, without their identities.
--
-- KEYS  the runs' hashes
-- Answers, one a run: its fields in the order of store/queue/views.py, and what its sessions announced while it closes.

local answers = {}
for at, key in ipairs(KEYS) do
    local is = redis.call('HMGET', key, 'run_uid', 'state', 'policy_version', 'retain_until', 'temporary',
        'owner', 'shared', 'sources')
    local announced = {}
    if is[1] and is[2] == 'closing' then
        local fields = redis.call('HGETALL', key)
        for field = 1, #fields, 2 do
            if string.sub(fields[field], 1, 2) == 'n:' then
                announced[#announced + 1] = string.sub(fields[field], 3)
                announced[#announced + 1] = fields[field + 1]
            end
        end
    end
    answers[at] = {is[1], is[2], is[3], is[4], is[5], announced, is[6], is[7], is[8]}
end
return answers
