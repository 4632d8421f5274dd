-- Say which intake keys sealed what has waited for some time, without letting a body leave the server.
--
-- KEYS  entries
-- ARGV  how many milliseconds that time is, how many entries are looked at
-- Answers key ids, for how many milliseconds the first entry of each has waited, and where there may be more such entries
-- how long the last one that was looked at has waited, else 0.

local replica = not_from_a_replica()
if replica then return replica end

local keys, ages, known, least = {}, {}, {}, tonumber(ARGV[1])
local last = oldest_entries(KEYS[1], tonumber(ARGV[2]), function(fields, age)
    if age < least then return true end
    -- A sealed body begins with its version and the id of its key.
    local key = string.sub(fields.b or '', 2, 9)
    if #key == 8 and not known[key] then
        known[key] = true
        keys[#keys + 1], ages[#ages + 1] = key, age
    end
end)
return {keys, ages, last or 0}
