-- Take frames into the stream, or say why not. The only place where anything is reserved.
--
-- KEYS  entries, pending, outcomes; then for each run its hash and its scope's
-- ARGV  parts, bytes and notes that the shard may have waiting; then for each run a list of facts in MessagePack, and the
--       bytes that it gives the lengths of, one behind the other. The facts: the run's name, how many parts and notes,
--       the parts' identity fields, and
--         each part:  evidence ‖ p ‖ key id ‖ digest, exact bytes, session, sequence, and the lengths of its header, of
--                     its gap's header (0: the same), of the sealed body
--         each note:  'state', 'gap' or 'fact', reason (may be empty), length of its header
-- Answers, one a frame in this order: 1 queued, 0 run not known, 'x' ‖ identity: exists,
--       'r' ‖ 1 or 0 (recorded) ‖ reason: refused.
--
-- policies/capacity.py decides the same in the same order; a test holds the two together. A run is read once and
-- written once, whatever comes for it. Redis refuses for want of memory at the first write only, which is always an
-- entry, so a call happens whole or not at all.

local call, sub = redis.call, string.sub
local entries, waiting, outcomes = KEYS[1], KEYS[2], KEYS[3]
local shard_parts, shard_bytes, shard_notes = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local now = now_ms()
local answers, counts, scopes = {}, {}, {}

local function use_of(key)
    local is = call('HMGET', key, 'parts', 'bytes', 'notes')
    return {parts = number(is[1]), bytes = number(is[2]), notes = number(is[3]), entries = {}, changed = false}
end

local shard = use_of(waiting)

local FIELDS = {
    'parts', 'bytes', 'wparts', 'wbytes', 'wnotes',
    'l_part', 'l_parts', 'l_bytes', 'l_wparts', 'l_wbytes', 'l_wnotes', 's_parts', 's_bytes', 'share',
    'retain_until', 'closing_until', 'temporary', 'facts_full',
}

local function read_run(key, scope, name, is)
    local run = {key = key, full_name = name_of(key), name = name, state = is[2], added = 0, pending = {}}
    for field = 1, #FIELDS do
        run[FIELDS[field]] = number(is[2 + field])
    end
    run.narrowness = narrowness(run.state)
    scopes[scope] = scopes[scope] or use_of(scope)
    run.scope = scopes[scope]
    return run
end

local function count(reason)
    counts[reason] = (counts[reason] or 0) + 1
end

local function full_of_notes(run)
    return run.wnotes >= run.l_wnotes or shard.notes >= shard_notes
end

-- Facts leave half of that to attempt states and gaps, and a scope's leave to others what is not its share.
local function full_of_facts(run)
    local notes, half = run.scope.notes, shard_notes / 2
    return run.wnotes >= run.l_wnotes / 2 or shard.notes >= half
        or notes + 1 > run.share / 1000 * (half - less(shard.notes, notes))
end

local function note(run, ...)
    call('XADD', entries, '*', 'v', '1', 'n', run.full_name, ...)
    run.wnotes, shard.notes = run.wnotes + 1, shard.notes + 1
    run.scope.notes = run.scope.notes + 1
    run.added = run.added + 1
end

-- A refusal leaves a gap, if there is room for notes. Of a temporary run's gaps the writer keeps counts by reason only.
local function refuse(run, reason, header)
    count(reason)
    if full_of_notes(run) then return 'r0' .. reason end
    note(run, 't', 'gap', 'h', header, 'k', 'part', 'r', reason)
    return 'r1' .. reason
end

local function full(run, scope, exact, sealed)
    if exact > run.l_part then return 'part_too_large' end
    if run.parts + 1 > run.l_parts then return 'run_part_limit' end
    if run.bytes + exact > run.l_bytes then return 'run_byte_limit' end
    local parts, bytes, share = scope.parts + 1, scope.bytes + sealed, run.share / 1000
    if run.wparts + 1 > run.l_wparts or run.wbytes + sealed > run.l_wbytes
        or parts > run.s_parts or bytes > run.s_bytes
        or parts > share * (shard_parts - less(shard.parts, scope.parts))
        or bytes > share * (shard_bytes - less(shard.bytes, scope.bytes))
        or shard.parts + 1 > shard_parts or shard.bytes + sealed > shard_bytes then
        return 'capacity_exceeded'
    end
    return nil
end

-- While a run closes, what its sessions announced may still come in.
local function closed(run, session, sequence)
    if run.state ~= 'closing' or session == '' or sequence == '' or now >= run.closing_until then return true end
    local announced = call('HGET', run.key, 'n:' .. session)
    return not announced or sequence > tonumber(announced)
end

-- The run that is served: its facts, its bytes, and from where on these are still to be read.
local facts, bytes, unread

local function next_bytes(length)
    unread = unread + length
    return sub(bytes, unread - length, unread - 1)
end

local function take_part(run, at, field, identity)
    local header, gap, body = next_bytes(facts[at + 4]), next_bytes(facts[at + 5]), next_bytes(facts[at + 6])
    if gap == '' then gap = header end
    if run.narrowness > CLOSED then return refuse(run, run.state, gap) end
    if now >= run.retain_until then return refuse(run, 'retention_expired', gap) end
    -- Before the bounds and the closing: a resend of what is here is no newcomer.
    identity = identity or run.pending[field]
    if identity then return 'x' .. identity end
    if run.narrowness > 0 and closed(run, facts[at + 2], facts[at + 3]) then return refuse(run, 'run_closed', gap) end
    local scope, exact, sealed = run.scope, facts[at + 1], #body
    local reason = full(run, scope, exact, sealed)
    if reason then return refuse(run, reason, gap) end

    local reserved = facts[at] .. ':' .. exact .. ':' .. sealed
    call('XADD', entries, '*', 'v', '1', 'n', run.full_name, 't', 'part', 'h', header, 'b', body, 'i', field,
        'p', reserved)
    run.pending[field] = reserved
    run.parts, run.bytes = run.parts + 1, run.bytes + exact
    run.wparts, run.wbytes = run.wparts + 1, run.wbytes + sealed
    scope.parts, scope.bytes = scope.parts + 1, scope.bytes + sealed
    shard.parts, shard.bytes = shard.parts + 1, shard.bytes + sealed
    run.added = run.added + 1
    return 1
end

-- Why a run takes no more notes of a kind. Gaps are taken until the retention ends; attempt states until the run is
-- closed or erased; facts also only while its content is admitted, and until a writer found that it has all it may have.
local function refusal_of(run, kind)
    if run.temporary == 1 and kind ~= 'gap' then return 'temporary_mode' end
    if now >= run.retain_until then return 'retention_expired' end
    if kind == 'state' and (run.state == 'run_closed' or run.state == 'erased') then return run.state end
    if kind == 'fact' and run.narrowness >= CLOSED then return run.state end
    if kind == 'fact' and (run.facts_full == 1 or full_of_facts(run)) then return 'capacity_exceeded' end
    if full_of_notes(run) then return 'capacity_exceeded' end
    return nil
end

local function take_note(run, at)
    local kind, reason, header = facts[at], facts[at + 1], next_bytes(facts[at + 2])
    local refused = refusal_of(run, kind)
    if refused then return 'r0' .. refused end
    if reason == '' then
        note(run, 't', kind, 'h', header)
    else
        count(reason)
        note(run, 't', kind, 'h', header, 'r', reason)
    end
    return 1
end

local function save_run(run)
    if run.added == 0 then return end
    local set = {'wnotes', run.wnotes, 'parts', run.parts, 'bytes', run.bytes, 'wparts', run.wparts,
        'wbytes', run.wbytes}
    for field, reserved in pairs(run.pending) do
        set[#set + 1] = field
        set[#set + 1] = reserved
    end
    call('HSET', run.key, unpack(set))
    local names = run.scope.entries
    names[run.name] = (names[run.name] or 0) + run.added
    run.scope.changed, shard.changed = true, true
end

-- Serve all frames of the run whose facts are known.
local function serve(key, scope)
    local parts, notes = facts[2], facts[3]
    local is = call('HMGET', key, 'run_uid', 'state', unpack(FIELDS))
    if not is[1] then
        for _ = 1, parts + notes do answers[#answers + 1] = 0 end
        return
    end
    local run = read_run(key, scope, facts[1], is)
    local identities = parts > 0 and call('HMGET', key, unpack(facts, 4, 3 + parts))
    local at = 4 + parts
    for part = 1, parts do
        answers[#answers + 1] = take_part(run, at, facts[3 + part], identities[part])
        at = at + 7
    end
    for _ = 1, notes do
        answers[#answers + 1] = take_note(run, at)
        at = at + 3
    end
    save_run(run)
end

for run = 4, #KEYS, 2 do
    facts, bytes, unread = cmsgpack.unpack(ARGV[run]), ARGV[run + 1], 1
    serve(KEYS[run], KEYS[run + 1])
end
for key, scope in pairs(scopes) do
    if scope.changed then
        for name, more in pairs(scope.entries) do
            call('HINCRBY', key, 'r:' .. name, more)
        end
        call('HSET', key, 'parts', scope.parts, 'bytes', scope.bytes, 'notes', scope.notes)
    end
end
if shard.changed then
    call('HSET', waiting, 'parts', shard.parts, 'bytes', shard.bytes, 'notes', shard.notes)
end
for reason, more in pairs(counts) do
    call('HINCRBY', outcomes, reason, more)
end
return answers
