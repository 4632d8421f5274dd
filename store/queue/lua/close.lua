-- Begin to close a run: from now on only what its sessions announced, and that for a while.
--
-- KEYS  run
-- ARGV  closing_until, channel, message, then the sessions (name, last number)
-- Answers 0 if the run is not known.

local run = KEYS[1]
if redis.call('HEXISTS', run, 'run_uid') == 0 then return 0 end
narrow(run, 'closing', nil)
-- Closing again must not make it last for ever, nor take back what was announced.
redis.call('HSETNX', run, 'closing_until', ARGV[1])
for at = 4, #ARGV, 2 do
    local field, announced = 'n:' .. ARGV[at], tonumber(ARGV[at + 1])
    if announced >= number(redis.call('HGET', run, field)) then
        redis.call('HSET', run, field, announced)
    end
end
redis.call('PUBLISH', ARGV[2], ARGV[3])
return 1
