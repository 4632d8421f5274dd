-- Lower a run and tell every process. A run that is not known is marked for a while, so that somebody who read its
-- row before it was narrowed, and brings it in afterwards, does not raise it again.
--
-- KEYS  run
-- ARGV  state (may be empty), retain_until (may be empty), channel, message

narrow(KEYS[1], ARGV[1], tonumber(ARGV[2]))
if redis.call('HEXISTS', KEYS[1], 'run_uid') == 1 then
    keep_past_retention(KEYS[1])
else
    redis.call('PEXPIRE', KEYS[1], LEAST_MS)
end
redis.call('PUBLISH', ARGV[3], ARGV[4])
return 1
