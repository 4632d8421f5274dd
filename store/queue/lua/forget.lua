-- Drop a run of which nothing waits.
--
-- KEYS  run, scope
-- ARGV  run's name
-- Answers 0 if something waits.

if redis.call('HEXISTS', KEYS[2], 'r:' .. ARGV[1]) == 1 then return 0 end
redis.call('DEL', KEYS[1])
return 1
