-- Forget runs that nobody asked about for long and of which nothing waits: they are opened again when somebody does. What a
-- closing announced is not in the database's row of the run, so that one which closes stays.
--
-- KEYS  for each run its hash and its scope's
-- ARGV  for how many seconds nobody asked
-- Answers how many are gone.

local gone = 0
for at = 1, #KEYS, 2 do
    local run, scope = KEYS[at], KEYS[at + 1]
    local idle = redis.call('EXISTS', run) == 1 and redis.call('OBJECT', 'IDLETIME', run)
    if idle and idle >= tonumber(ARGV[1]) then
        local is, name = redis.call('HMGET', run, 'run_uid', 'state'), string.match(run, ':run:%x+:(.+)$')
        if is[1] and is[2] ~= 'closing' and redis.call('HEXISTS', scope, 'r:' .. name) == 0 then
            gone = gone + redis.call('DEL', run)
        end
    end
end
return gone
