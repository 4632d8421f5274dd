-- Let the queue know a run, if it does not; else narrow it, and take over the limits of a newer policy.
--
-- KEYS  run, scope, entries
-- ARGV  group, run's name, state, retain_until, refresh limits (1 or 0), captured parts and bytes,
--       owner (empty: not told), shared (1 or 0), how many default sources, these as one value,
--       number of fields that a new run gets, these (name, value), number of fields of the limits (the first is the
--       policy version), these, then the stored identities (field, value)
-- Answers 1 if the run was new.

local run, scope, entries = KEYS[1], KEYS[2], KEYS[3]
local name, state, retain_until = ARGV[2], ARGV[3], tonumber(ARGV[4])

local function put(from, many, write)
    for at = from, from + 2 * many - 1, 2 do
        redis.call(write, run, ARGV[at], ARGV[at + 1])
    end
    return from + 2 * many
end

-- An owner never changes, sharing only ends, and sources only grow: of two words the later one is told by that.
local function belong(owner, shared, many, sources)
    if owner == '' then return end
    local is = redis.call('HMGET', run, 'shared', 'many')
    redis.call('HSETNX', run, 'owner', owner)
    if is[1] ~= '0' then redis.call('HSET', run, 'shared', shared) end
    if not is[2] or many > number(is[2]) then redis.call('HSET', run, 'many', many, 'sources', sources) end
end

-- Entries can only be there without their run's hash if that was lost alone; the scope's hash says whether any are.
local function count_waiting()
    local is = {parts = number(ARGV[6]), bytes = number(ARGV[7]), wparts = 0, wbytes = 0, wnotes = 0}
    if redis.call('HEXISTS', scope, 'r:' .. name) == 1 then
        local full_name = name_of(run)
        each_entry(entries, function(fields)
            if fields.n ~= full_name then return end
            if fields.t ~= 'part' then
                is.wnotes = is.wnotes + 1
                return
            end
            is.wparts, is.wbytes = is.wparts + 1, is.wbytes + #fields.b
            -- One that the database holds already was written, but its writer died before it settled.
            local _, exact = pending(fields.p)
            if redis.call('HSETNX', run, fields.i, fields.p) == 1 then
                is.parts, is.bytes = is.parts + 1, is.bytes + exact
            end
        end)
    end
    for field, amount in pairs(is) do
        redis.call('HSET', run, field, amount)
    end
end

-- Writers need their group, and a full server would not let them make it: no entry comes in before its run.
if redis.call('EXISTS', entries) == 0 then
    redis.call('XGROUP', 'CREATE', entries, ARGV[1], '0', 'MKSTREAM')
end
local many = tonumber(ARGV[12])
local limits_at = 13 + 2 * many
local limits = tonumber(ARGV[limits_at])
local known = redis.call('HMGET', run, 'run_uid', 'policy_version')
narrow(run, state, retain_until)
belong(ARGV[8], ARGV[9], tonumber(ARGV[10]), ARGV[11])
if known[1] then
    if ARGV[5] == '1' and tonumber(ARGV[limits_at + 2]) > number(known[2]) then
        put(limits_at + 1, limits, 'HSET')
    end
else
    -- What was narrowed before it was opened stays narrow.
    put(13, many, 'HSETNX')
    local stored_at = put(limits_at + 1, limits, 'HSET')
    put(stored_at, (#ARGV - stored_at + 1) / 2, 'HSET')
    count_waiting()
end
keep_past_retention(run)
if not known[1] and narrowness(redis.call('HGET', run, 'state')) == CLOSED then
    -- The database knows it; here it is wanted for what comes late, and no longer than that.
    redis.call('PEXPIRE', run, math.min(LATE_MS, redis.call('PTTL', run)))
end
return known[1] and 0 or 1
