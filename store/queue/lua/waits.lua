-- Say for how long the oldest entry of runs, or of whole scopes, has waited, without letting a body leave the server.
--
-- KEYS  entries, then for each question its scope's hash
-- ARGV  how many entries are looked at, then for each question the run's name (empty: the whole scope)
-- Answers, one a question, milliseconds; 0 where nothing of it waits. What waits and is not among the oldest entries has
-- waited for less than the last of these, of which the wait is answered. With nothing waiting no entry is looked at.

local replica = not_from_a_replica()
if replica then return replica end

local waits, wanted, left = {}, {}, 0
for at = 2, #KEYS do
    local name, scope = ARGV[at], string.match(KEYS[at], ':scope:(%x+)$')
    local some = name == '' and redis.call('EXISTS', KEYS[at]) or redis.call('HEXISTS', KEYS[at], 'r:' .. name)
    waits[at - 1] = 0
    if some == 1 then
        local full_name = name == '' and scope or scope .. ':' .. name
        if not wanted[full_name] then left = left + 1 end
        wanted[full_name] = wanted[full_name] or {}
        table.insert(wanted[full_name], at - 1)
    end
end
if left == 0 then return waits end

local function found(full_name, age)
    if not wanted[full_name] then return end
    for _, question in ipairs(wanted[full_name]) do waits[question] = math.max(1, age) end
    wanted[full_name], left = nil, left - 1
end

local last = oldest_entries(KEYS[1], tonumber(ARGV[1]), function(fields, age)
    local full_name = fields.n or ''
    found(full_name, age)
    found(string.match(full_name, '^%x+') or '', age)
    return left == 0
end)
for full_name in pairs(last and wanted or {}) do
    found(full_name, last)
end
return waits
