-- Remember that an entry is tried alone, unless somebody tries it now.
--
-- KEYS  alone
-- ARGV  entry, how many milliseconds a try that did not end is taken for one under way, and how many it is remembered
-- Answers how many tries never ended, that is, whose writers are gone; -1 if one is under way.

local deaths, began = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%d+) (%d+)$')
local now = now_ms()
if began and now - began < tonumber(ARGV[2]) then return -1 end
deaths = began and deaths + 1 or 0
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d %.0f', deaths, now))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return deaths
