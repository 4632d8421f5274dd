-- End entries and give back what was reserved for them. The only place where a reservation is released, and only for
-- an entry whose acknowledgement counted: of two writers that hold the same entry, one settles.
--
-- KEYS  entries, pending, outcomes; then for each run its hash and its scope's
-- ARGV  group; channel; number of runs; their names; then what ended alike, each
--         run, 'part' or 'note', outcome, reason, how many, and of each of them the entry id, and for parts
--         identity field, evidence, sealed bytes
-- Answers, one a settlement in this order: 1 settled, 0 somebody else had done so.
--
-- What ended alike is read and written together: a call costs more than what it does.

local call = redis.call
local entries, waiting, outcomes = KEYS[1], KEYS[2], KEYS[3]
local group, channel, many = ARGV[1], ARGV[2], tonumber(ARGV[3])

local answers, settled = {}, false
local shard = {parts = 0, bytes = 0, notes = 0}
local scopes, runs, counts, told = {}, {}, {}, {}

local function read_run(at)
    local key, scope = KEYS[2 + 2 * at], KEYS[3 + 2 * at]
    scopes[scope] = scopes[scope] or {parts = 0, bytes = 0, notes = 0, entries = {}}
    return {
        key = key, name = ARGV[3 + at], known = call('HEXISTS', key, 'run_uid') == 1, scope = scopes[scope],
        parts = 0, bytes = 0, wparts = 0, wbytes = 0, wnotes = 0, entries = 0,
    }
end

-- Returns the places of those entries that are ours to end, and takes them out of the stream.
local function acknowledge(run, from, until_, step)
    local ours, ids = {}, {}
    for at = from, until_, step do
        local acknowledged = call('XACK', entries, group, ARGV[at])
        answers[#answers + 1] = acknowledged
        if acknowledged == 1 then
            ours[#ours + 1], ids[#ids + 1] = at, ARGV[at]
        end
    end
    if #ids > 0 then
        call('XDEL', entries, unpack(ids))
        settled, run.entries = true, run.entries + #ids
    end
    return ours
end

local function each_pending(run, ours, visit)
    local fields = {}
    for place, at in ipairs(ours) do
        fields[place] = ARGV[at + 1]
    end
    local identities = call('HMGET', run.key, unpack(fields))
    for place, at in ipairs(ours) do
        local evidence, identity = ARGV[at + 2], identities[place]
        -- Of one that is pending nothing else begins so.
        if identity and string.sub(identity, 1, #evidence + 1) == evidence .. 'p' then
            visit(fields[place], evidence, identity)
        end
    end
end

local function keep_stored(run, ours)
    local set = {}
    each_pending(run, ours, function(field, evidence)
        -- The exact size goes with this: only the run's sum keeps it.
        set[#set + 1], set[#set + 2] = field, evidence .. 's'
    end)
    if #set > 0 then call('HSET', run.key, unpack(set)) end
end

local function drop_refused(run, ours)
    local gone = {}
    each_pending(run, ours, function(field, _, identity)
        local _, exact = pending(identity)
        gone[#gone + 1] = field
        run.parts, run.bytes = run.parts + 1, run.bytes + exact
    end)
    if #gone > 0 then call('HDEL', run.key, unpack(gone)) end
end

local function settle_parts(run, outcome, reason, ours)
    if run.known then
        if outcome == 'stored' then keep_stored(run, ours) else drop_refused(run, ours) end
    end
    local sealed, ending = 0, ' ' .. outcome .. ' ' .. reason
    for _, at in ipairs(ours) do
        sealed = sealed + ARGV[at + 3]
        told[#told + 1] = ARGV[at + 2] .. ending
    end
    for _, sums in ipairs({run.scope, shard}) do
        sums.parts, sums.bytes = sums.parts + #ours, sums.bytes + sealed
    end
    run.wparts, run.wbytes = run.wparts + #ours, run.wbytes + sealed
    local word = reason ~= '' and reason or outcome
    counts[word] = (counts[word] or 0) + #ours
end

-- Settle what ended alike, which begins at `at`; returns where the next begins.
local function settle(at)
    local run, parts, count = runs[tonumber(ARGV[at])], ARGV[at + 1] == 'part', tonumber(ARGV[at + 4])
    local step = parts and 4 or 1
    local next_at = at + 5 + count * step
    local ours = acknowledge(run, at + 5, next_at - 1, step)
    if #ours > 0 then
        if parts then
            settle_parts(run, ARGV[at + 2], ARGV[at + 3], ours)
        else
            for _, sums in ipairs({run.scope, shard}) do
                sums.notes = sums.notes + #ours
            end
            run.wnotes = run.wnotes + #ours
            -- Of notes only facts are refused for this: their run has as many as it may have. The next ones hear it at once.
            if ARGV[at + 3] == 'capacity_exceeded' and run.known then call('HSET', run.key, 'facts_full', 1) end
        end
    end
    return next_at
end

local function release(key, fields, amounts)
    local is, set = call('HMGET', key, unpack(fields)), {}
    for at, field in ipairs(fields) do
        if amounts[field] > 0 then
            set[#set + 1], set[#set + 2] = field, less(number(is[at]), amounts[field])
        end
    end
    if #set > 0 then call('HSET', key, unpack(set)) end
end

local function release_scope(key, scope)
    local sums = {'parts', 'bytes', 'notes'}
    release(key, sums, scope)
    for name, by in pairs(scope.entries) do
        if call('HINCRBY', key, 'r:' .. name, -by) <= 0 then
            call('HDEL', key, 'r:' .. name)
        end
    end
    -- Nothing but its sums is left: nothing of this scope waits.
    local left = call('HLEN', key)
    for _, sum in ipairs(sums) do
        left = left - call('HEXISTS', key, sum)
    end
    if left == 0 then call('DEL', key) end
end

for at = 1, many do
    runs[at] = read_run(at)
end
local at = 4 + many
while at <= #ARGV do
    at = settle(at)
end
if not settled then return answers end
for _, run in ipairs(runs) do
    if run.entries > 0 then
        run.scope.entries[run.name] = run.entries
        if run.known then release(run.key, {'parts', 'bytes', 'wparts', 'wbytes', 'wnotes'}, run) end
    end
end
for key, scope in pairs(scopes) do
    if next(scope.entries) then release_scope(key, scope) end
end
release(waiting, {'parts', 'bytes', 'notes'}, shard)
for word, more in pairs(counts) do
    call('HINCRBY', outcomes, word, more)
end
if #told > 0 then
    call('PUBLISH', channel, table.concat(told, '\n'))
end
return answers
