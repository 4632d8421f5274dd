-- End entries and give back what was reserved for them. The only place where a reservation is released, and only for
-- an entry whose acknowledgement counted: of two writers that hold the same entry, one settles.
--
-- KEYS  entries, pending, outcomes; then for each run its hash and its scope's
-- ARGV  group; channel; number of runs; their names; then the settlements, each
--         entry id, run, 'part' or 'note', outcome, reason, identity field, evidence, sealed bytes
-- Answers, one a settlement: 1 settled, 0 somebody else had done so.

local entries, waiting, outcomes = KEYS[1], KEYS[2], KEYS[3]
local group, channel, many = ARGV[1], ARGV[2], tonumber(ARGV[3])

local shard = {parts = 0, bytes = 0, notes = 0}
local scopes, runs, counts, told = {}, {}, {}, {}

local function read_run(at)
    local key, scope = KEYS[2 + 2 * at], KEYS[3 + 2 * at]
    scopes[scope] = scopes[scope] or {parts = 0, bytes = 0, entries = {}}
    return {
        key = key, name = ARGV[3 + at], known = redis.call('HEXISTS', key, 'run_uid') == 1, scope = scopes[scope],
        parts = 0, bytes = 0, wparts = 0, wbytes = 0, wnotes = 0,
    }
end

local function settle_identity(run, field, evidence, outcome)
    local identity = run.known and redis.call('HGET', run.key, field)
    local pending_as, exact = pending(identity)
    if pending_as ~= evidence then return end
    if outcome == 'stored' then
        -- The exact size goes with this: only the run's sum keeps it.
        redis.call('HSET', run.key, field, evidence .. 's')
    else
        redis.call('HDEL', run.key, field)
        run.parts, run.bytes = run.parts + 1, run.bytes + exact
    end
end

local function settle(at)
    local run, outcome, reason = runs[tonumber(ARGV[at + 1])], ARGV[at + 3], ARGV[at + 4]
    if redis.call('XACK', entries, group, ARGV[at]) == 0 then return 0 end
    redis.call('XDEL', entries, ARGV[at])
    run.scope.entries[run.name] = (run.scope.entries[run.name] or 0) + 1
    if ARGV[at + 2] == 'note' then
        run.wnotes, shard.notes = run.wnotes + 1, shard.notes + 1
        return 1
    end
    local evidence, sealed = ARGV[at + 6], tonumber(ARGV[at + 7])
    settle_identity(run, ARGV[at + 5], evidence, outcome)
    run.wparts, run.wbytes = run.wparts + 1, run.wbytes + sealed
    run.scope.parts, run.scope.bytes = run.scope.parts + 1, run.scope.bytes + sealed
    shard.parts, shard.bytes = shard.parts + 1, shard.bytes + sealed
    local word = reason ~= '' and reason or outcome
    counts[word] = (counts[word] or 0) + 1
    told[#told + 1] = evidence .. ' ' .. outcome .. ' ' .. reason
    return 1
end

local function release(key, amounts)
    for _, field in ipairs({'parts', 'bytes', 'wparts', 'wbytes', 'wnotes', 'notes'}) do
        local by = amounts[field]
        if by and by > 0 then
            redis.call('HSET', key, field, less(number(redis.call('HGET', key, field)), by))
        end
    end
end

local function release_scope(key, scope)
    release(key, scope)
    for name, by in pairs(scope.entries) do
        if redis.call('HINCRBY', key, 'r:' .. name, -by) <= 0 then
            redis.call('HDEL', key, 'r:' .. name)
        end
    end
    -- Nothing but its two sums is left: nothing of this scope waits.
    if redis.call('HLEN', key) == redis.call('HEXISTS', key, 'parts') + redis.call('HEXISTS', key, 'bytes') then
        redis.call('DEL', key)
    end
end

for at = 1, many do
    runs[at] = read_run(at)
end
local answers, settled = {}, false
for at = 4 + many, #ARGV, 8 do
    answers[#answers + 1] = settle(at)
    settled = settled or answers[#answers] == 1
end
if not settled then return answers end
for _, run in ipairs(runs) do
    if run.known then release(run.key, run) end
end
for key, scope in pairs(scopes) do
    if next(scope.entries) then release_scope(key, scope) end
end
release(waiting, shard)
for word, more in pairs(counts) do
    redis.call('HINCRBY', outcomes, word, more)
end
if #told > 0 then
    redis.call('PUBLISH', channel, table.concat(told, '\n'))
end
return answers
