-- Take over entries that their writer has left lying, with how often each was delivered.
--
-- KEYS  entries
-- ARGV  group, consumer, idle milliseconds, where to go on, count
-- Answers where to go on, the entries, how often each was delivered, and how many were gone from the stream.

local claimed = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5])
local deliveries = {}
for at, entry in ipairs(claimed[2]) do
    local pending_now = redis.call('XPENDING', KEYS[1], ARGV[1], entry[1], entry[1], 1)
    deliveries[at] = pending_now[1] and pending_now[1][4] or 1
end
return {claimed[1], claimed[2], deliveries, #(claimed[3] or {})}
