-- What several scripts need; stands before each of them.

-- A run's hash outlives its retention by this, so that late questions still meet it.
local DAY_MS = 86400000
-- And one that is opened later still lives so long: whoever opened it is about to ask it something.
local LEAST_MS = 120000
-- A closed run is forgotten; when one is asked for late, it is known for so long.
local LATE_MS = 3600000

local function now_ms()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- What a server that only follows another says of what waits is of the past, and erasures are acknowledged, runs closed
-- and keys destroyed by it. Returns the answer that says so, as to a write; nothing from a primary.
local function not_from_a_replica()
    local role = string.match(redis.call('INFO', 'replication'), 'role:(%a+)') or 'master'
    if role == 'master' then return nil end
    return redis.error_reply('READONLY this server is a replica')
end

local function number(value)
    return tonumber(value) or 0
end

local function less(amount, by)
    return math.max(0, amount - by)
end

-- How narrow a state is. A run only ever goes up here: closed is narrower than closing, a refusal of content narrower
-- than closed, and erased is the end.
local CLOSED = 2
local function narrowness(state)
    if state == 'open' then return 0 end
    if state == 'closing' then return 1 end
    if state == 'run_closed' then return CLOSED end
    if state == 'erased' then return 4 end
    return 3
end

-- Narrow the run at `key`; an empty state or a retention of nothing says nothing about it.
local function narrow(key, state, retain_until)
    local is = redis.call('HMGET', key, 'state', 'retain_until')
    if state ~= '' and (not is[1] or narrowness(state) > narrowness(is[1])) then
        redis.call('HSET', key, 'state', state)
    end
    if retain_until and (not is[2] or retain_until < number(is[2])) then
        redis.call('HSET', key, 'retain_until', retain_until)
    end
    -- A run that became temporary tells nothing of its attempts from now on.
    if state == 'temporary_mode' then
        redis.call('HSET', key, 'temporary', 1)
    end
end

local function keep_past_retention(key)
    local retain_until = number(redis.call('HGET', key, 'retain_until'))
    redis.call('PEXPIREAT', key, math.max(retain_until + DAY_MS, now_ms() + LEAST_MS))
end

-- An identity is `<evidence>s` once stored, and `<evidence>p<key id><digest>:<exact bytes>:<sealed bytes>` while it is
-- pending. Returns nothing unless it is pending.
local function pending(identity)
    if not identity then return nil end
    local evidence, exact, sealed = string.match(identity, '^(%x+)p%x*:(%d+):(%d+)$')
    if not evidence then return nil end
    return evidence, tonumber(exact), tonumber(sealed)
end

-- What a run's hash is called behind `run:`. Every entry names it, because Redis cannot read our headers.
local function name_of(key)
    return string.match(key, ':run:(.+)$')
end

-- Visit the fields of every entry of a stream.
local function each_entry(stream, visit)
    local from = '-'
    while true do
        local page = redis.call('XRANGE', stream, from, '+', 'COUNT', 64)
        for _, entry in ipairs(page) do
            local fields = {}
            for at = 1, #entry[2], 2 do
                fields[entry[2][at]] = entry[2][at + 1]
            end
            visit(fields)
        end
        if #page < 64 then return end
        from = '(' .. page[#page][1]
    end
end

-- Visit the oldest entries of a stream, `most` of them at most and no more bodies than fit into 8 MiB, each with how long
-- it has waited in milliseconds, until `visit` has seen enough. Returns how long the last one has waited where there may
-- be more.
local function oldest_entries(stream, most, visit)
    local now, from, seen, bytes = now_ms(), '-', 0, 0
    while true do
        local page = redis.call('XRANGE', stream, from, '+', 'COUNT', 16)
        for _, entry in ipairs(page) do
            local fields, age = {}, less(now, tonumber(string.match(entry[1], '^%d+')))
            for at = 1, #entry[2], 2 do
                fields[entry[2][at]] = entry[2][at + 1]
            end
            seen, bytes = seen + 1, bytes + #(fields.b or '')
            if visit(fields, age) then return nil end
            if seen == most or bytes > 8388608 then return age end
        end
        if #page < 16 then return nil end
        from = '(' .. page[#page][1]
    end
end
