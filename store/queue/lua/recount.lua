-- Make every reservation say what the stream holds: a repair, for when something outside the scripts was at work.
--
-- KEYS  entries, pending, then the scopes' and the runs' hashes that exist
-- ARGV  the shard's prefix, number of scopes
-- Answers how many hashes said something else before.

local entries, waiting, prefix, many = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local shard, scopes, runs, wrong = {parts = 0, bytes = 0, notes = 0}, {}, {}, 0

local function new_scope() return {parts = 0, bytes = 0, notes = 0, entries = {}} end
local function new_run() return {wparts = 0, wbytes = 0, wnotes = 0, pending = {}} end
for at = 3, 2 + many do scopes[KEYS[at]] = new_scope() end
for at = 3 + many, #KEYS do runs[KEYS[at]] = new_run() end

each_entry(entries, function(fields)
    local scope_id, name = string.match(fields.n, '^(%x+):(.+)$')
    local scope_key, run_key = prefix .. 'scope:' .. scope_id, prefix .. 'run:' .. fields.n
    scopes[scope_key] = scopes[scope_key] or new_scope()
    runs[run_key] = runs[run_key] or new_run()
    local scope, run = scopes[scope_key], runs[run_key]
    scope.entries[name] = (scope.entries[name] or 0) + 1
    if fields.t ~= 'part' then
        run.wnotes, scope.notes, shard.notes = run.wnotes + 1, scope.notes + 1, shard.notes + 1
        return
    end
    local sealed = #fields.b
    run.wparts, run.wbytes = run.wparts + 1, run.wbytes + sealed
    scope.parts, scope.bytes = scope.parts + 1, scope.bytes + sealed
    shard.parts, shard.bytes = shard.parts + 1, shard.bytes + sealed
    run.pending[fields.i] = fields.p
end)

-- Set what is missing or differs; returns whether anything differed.
local function correct(key, should)
    local differs = false
    for field, value in pairs(should) do
        local is = redis.call('HGET', key, field)
        differs = differs or number(is) ~= value
        if not is or number(is) ~= value then redis.call('HSET', key, field, value) end
    end
    return differs
end

local function correct_scope(key, scope)
    local differs, is = false, redis.call('HGETALL', key)
    for at = 1, #is, 2 do
        local name = string.match(is[at], '^r:(.*)$')
        if name and not scope.entries[name] then
            redis.call('HDEL', key, is[at])
            differs = true
        end
    end
    local should = {parts = scope.parts, bytes = scope.bytes, notes = scope.notes}
    for name, times in pairs(scope.entries) do should['r:' .. name] = times end
    differs = correct(key, should) or differs
    if not next(scope.entries) then redis.call('DEL', key) end
    return differs
end

-- What is pending without an entry is lost and given back; what has an entry is pending.
local function correct_identities(key, run)
    local parts, bytes, differs = 0, 0, false
    local is = redis.call('HGETALL', key)
    for at = 1, #is, 2 do
        local evidence, exact = pending(is[at + 1])
        if string.sub(is[at], 1, 2) == 'i:' and evidence and not run.pending[is[at]] then
            redis.call('HDEL', key, is[at])
            parts, bytes, differs = parts - 1, bytes - exact, true
        end
    end
    for field, pending_as in pairs(run.pending) do
        if redis.call('HSETNX', key, field, pending_as) == 1 then
            local _, exact = pending(pending_as)
            parts, bytes, differs = parts + 1, bytes + exact, true
        end
    end
    if differs then
        local captured = redis.call('HMGET', key, 'parts', 'bytes')
        redis.call('HSET', key, 'parts', less(number(captured[1]), -parts), 'bytes', less(number(captured[2]), -bytes))
    end
    return differs
end

if correct(waiting, shard) then wrong = wrong + 1 end
for key, scope in pairs(scopes) do
    if correct_scope(key, scope) then wrong = wrong + 1 end
end
for key, run in pairs(runs) do
    -- A run that is not known is counted when it is opened.
    if redis.call('HEXISTS', key, 'run_uid') == 1 then
        local differs = correct_identities(key, run)
        local should = {wparts = run.wparts, wbytes = run.wbytes, wnotes = run.wnotes}
        if correct(key, should) or differs then wrong = wrong + 1 end
    end
end
return wrong
