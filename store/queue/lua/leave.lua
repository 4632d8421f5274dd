-- Take a consumer off the list, but never one that holds entries: they would be delivered to nobody again.
--
-- KEYS  entries
-- ARGV  group, consumer

if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) > 0 then return 0 end
redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
return 1
