-- Forget what the queue knows of runs, but how narrow they are: the rest is counted anew when they are opened again.
--
-- KEYS  runs' hashes
-- Answers how many there were.

local found = 0
for at = 1, #KEYS do
    local run = KEYS[at]
    local kept, ttl = redis.call('HMGET', run, 'state', 'retain_until'), redis.call('PTTL', run)
    found = found + redis.call('DEL', run)
    if kept[1] and kept[2] then
        redis.call('HSET', run, 'state', kept[1], 'retain_until', kept[2])
        if ttl > 0 then redis.call('PEXPIRE', run, ttl) end
    end
end
return found
