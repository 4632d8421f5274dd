-- Say how much waits, without letting a body leave the server.
--
-- KEYS  entries, pending
-- Answers parts, bytes, notes, entries, and the age of the oldest in milliseconds.

local replica = not_from_a_replica()
if replica then return replica end

local is = redis.call('HMGET', KEYS[2], 'parts', 'bytes', 'notes')
local oldest, age = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1), 0
if oldest[1] then
    age = less(now_ms(), tonumber(string.match(oldest[1][1], '^%d+')))
end
return {number(is[1]), number(is[2]), number(is[3]), redis.call('XLEN', KEYS[1]), age}
