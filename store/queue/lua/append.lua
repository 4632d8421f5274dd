-- Take frames into the stream, or say why not. The only place where anything is reserved.
--
-- KEYS  entries, pending, outcomes; then for each run its hash and its scope's
-- ARGV  parts and bytes that the shard may have waiting; number of runs; their names; then the frames, each
--         part:  'part',  run, identity field, evidence ‖ p ‖ key id ‖ digest, exact bytes, session, sequence, header,
--                header of its gap (empty: the same), sealed body
--         note:  'state' or 'gap', run, header, reason (may be empty)
-- Answers, one a frame: 1 queued, 0 run not known, 'x' ‖ identity: exists, 'r' ‖ 1 or 0 (recorded) ‖ reason: refused.
--
-- policies/capacity.py decides the same in the same order; a test holds the two together. What is read is kept for
-- the whole call and written back at its end. Redis refuses for want of memory at the first write only, which is
-- always an entry, so a call happens whole or not at all.

local entries, waiting, outcomes = KEYS[1], KEYS[2], KEYS[3]
local shard_parts, shard_bytes = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = now_ms()

local function use_of(key)
    local is = redis.call('HMGET', key, 'parts', 'bytes', 'notes')
    return {parts = number(is[1]), bytes = number(is[2]), notes = number(is[3]), entries = {}}
end

local shard, scopes, runs, counts = use_of(waiting), {}, {}, {}

local FIELDS = {
    'parts', 'bytes', 'wparts', 'wbytes', 'wnotes',
    'l_part', 'l_parts', 'l_bytes', 'l_wparts', 'l_wbytes', 'l_wnotes', 's_parts', 's_bytes', 'share',
    'retain_until', 'closing_until', 'temporary',
}

local function read_run(at)
    local key, scope = KEYS[2 + 2 * at], KEYS[3 + 2 * at]
    local is = redis.call('HMGET', key, 'run_uid', 'state', unpack(FIELDS))
    if not is[1] then return nil end
    local run = {key = key, name = ARGV[3 + at], state = is[2]}
    for field = 1, #FIELDS do
        run[FIELDS[field]] = number(is[2 + field])
    end
    scopes[scope] = scopes[scope] or use_of(scope)
    run.scope = scopes[scope]
    return run
end

local function count(reason)
    counts[reason] = (counts[reason] or 0) + 1
end

local function waits(run)
    run.changed, shard.changed = true, true
    run.scope.entries[run.name] = (run.scope.entries[run.name] or 0) + 1
end

local function note(run, ...)
    redis.call('XADD', entries, '*', 'v', '1', ...)
    run.wnotes, shard.notes = run.wnotes + 1, shard.notes + 1
    waits(run)
end

-- A refusal leaves a gap, if the run's notes have room; in a temporary run nothing but a count.
local function refuse(run, reason, header)
    count(reason)
    if run.temporary == 1 then return 'r1' .. reason end
    if run.wnotes >= run.l_wnotes then return 'r0' .. reason end
    note(run, 't', 'gap', 'h', header, 'k', 'part', 'r', reason)
    return 'r1' .. reason
end

local function full(run, exact, sealed)
    local scope = run.scope
    if exact > run.l_part then return 'part_too_large' end
    if run.parts + 1 > run.l_parts then return 'run_part_limit' end
    if run.bytes + exact > run.l_bytes then return 'run_byte_limit' end
    local share = run.share / 1000
    local free_parts = shard_parts - less(shard.parts, scope.parts)
    local free_bytes = shard_bytes - less(shard.bytes, scope.bytes)
    if run.wparts + 1 > run.l_wparts or run.wbytes + sealed > run.l_wbytes
        or scope.parts + 1 > run.s_parts or scope.bytes + sealed > run.s_bytes
        or scope.parts + 1 > share * free_parts or scope.bytes + sealed > share * free_bytes
        or shard.parts + 1 > shard_parts or shard.bytes + sealed > shard_bytes then
        return 'capacity_exceeded'
    end
    return nil
end

-- While a run closes, what its sessions announced may still come in.
local function closed(run, session, sequence)
    if run.state == 'open' then return false end
    if run.state ~= 'closing' or session == '' or sequence == '' or now >= run.closing_until then return true end
    local announced = redis.call('HGET', run.key, 'n:' .. session)
    return not announced or tonumber(sequence) > tonumber(announced)
end

local function part(run, at)
    local field, pending_as, exact = ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
    local header, body = ARGV[at + 7], ARGV[at + 9]
    local gap = ARGV[at + 8] ~= '' and ARGV[at + 8] or header
    if narrowness(run.state) > 2 then return refuse(run, run.state, gap) end
    if now >= run.retain_until then return refuse(run, 'retention_expired', gap) end
    -- Before the bounds and the closing: a resend of what is here is no newcomer.
    local identity = redis.call('HGET', run.key, field)
    if identity then return 'x' .. identity end
    if closed(run, ARGV[at + 5], ARGV[at + 6]) then return refuse(run, 'run_closed', gap) end
    local sealed, size = #body, tonumber(exact)
    local reason = full(run, size, sealed)
    if reason then return refuse(run, reason, gap) end

    local reserved = pending_as .. ':' .. exact .. ':' .. sealed
    redis.call('XADD', entries, '*', 'v', '1', 't', 'part', 'h', header, 'b', body, 'p', reserved)
    redis.call('HSET', run.key, field, reserved)
    run.parts, run.bytes = run.parts + 1, run.bytes + size
    run.wparts, run.wbytes = run.wparts + 1, run.wbytes + sealed
    run.scope.parts, run.scope.bytes = run.scope.parts + 1, run.scope.bytes + sealed
    shard.parts, shard.bytes = shard.parts + 1, shard.bytes + sealed
    waits(run)
    return 1
end

-- Gaps are taken until the retention ends; attempt states until the run is closed or erased.
local function take_note(run, at)
    local kind, header, reason = ARGV[at], ARGV[at + 2], ARGV[at + 3]
    if run.temporary == 1 then return 'r0temporary_mode' end
    if now >= run.retain_until then return 'r0retention_expired' end
    if kind == 'state' and (run.state == 'run_closed' or run.state == 'erased') then return 'r0' .. run.state end
    if run.wnotes >= run.l_wnotes then return 'r0capacity_exceeded' end
    if reason == '' then
        note(run, 't', kind, 'h', header)
    else
        count(reason)
        note(run, 't', kind, 'h', header, 'r', reason)
    end
    return 1
end

local function save()
    for _, run in pairs(runs) do
        if run and run.changed then
            redis.call('HSET', run.key, 'parts', run.parts, 'bytes', run.bytes,
                'wparts', run.wparts, 'wbytes', run.wbytes, 'wnotes', run.wnotes)
        end
    end
    for key, scope in pairs(scopes) do
        local changed = false
        for name, more in pairs(scope.entries) do
            redis.call('HINCRBY', key, 'r:' .. name, more)
            changed = true
        end
        if changed then redis.call('HSET', key, 'parts', scope.parts, 'bytes', scope.bytes) end
    end
    if shard.changed then
        redis.call('HSET', waiting, 'parts', shard.parts, 'bytes', shard.bytes, 'notes', shard.notes)
    end
    for reason, more in pairs(counts) do
        redis.call('HINCRBY', outcomes, reason, more)
    end
end

local many = tonumber(ARGV[3])
for at = 1, many do
    runs[at] = read_run(at) or false
end
local answers, at = {}, 4 + many
while at <= #ARGV do
    local is_part, run = ARGV[at] == 'part', runs[tonumber(ARGV[at + 1])]
    if not run then
        answers[#answers + 1] = 0
    elseif is_part then
        answers[#answers + 1] = part(run, at)
    else
        answers[#answers + 1] = take_note(run, at)
    end
    at = at + (is_part and 10 or 4)
end
save()
return answers
