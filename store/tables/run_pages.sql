-- name: runs_newest a scope's runs before ($2, $3) and not declared before $4; index runs_by_declared
SELECT run_uid, run, state, erased, mode, content, sampled, kinds, retain_until, shared, labels, declared_at, closing_at,
       closed_at, never_closed, now() AS opened_at, clock_timestamp() AS read_at
FROM runs
WHERE scope_id = $1 AND (declared_at, run_uid) < ($2, $3) AND declared_at >= $4
ORDER BY declared_at DESC, run_uid DESC
LIMIT $5

-- name: runs_oldest a scope's runs after ($2, $3) and declared before $4; index runs_by_declared
SELECT run_uid, run, state, erased, mode, content, sampled, kinds, retain_until, shared, labels, declared_at, closing_at,
       closed_at, never_closed, now() AS opened_at, clock_timestamp() AS read_at
FROM runs
WHERE scope_id = $1 AND (declared_at, run_uid) > ($2, $3) AND declared_at < $4
ORDER BY declared_at, run_uid
LIMIT $5

-- name: some_runs_newest some runs before ($2, $3) and not declared before $4; index runs_pkey
SELECT run_uid, run, state, erased, mode, content, sampled, kinds, retain_until, shared, labels, declared_at, closing_at,
       closed_at, never_closed, now() AS opened_at, clock_timestamp() AS read_at
FROM runs
WHERE scope_id = $1 AND run_uid = ANY($6::uuid[]) AND (declared_at, run_uid) < ($2, $3) AND declared_at >= $4
ORDER BY declared_at DESC, run_uid DESC
LIMIT $5

-- name: some_runs_oldest some runs after ($2, $3) and declared before $4; index runs_pkey
SELECT run_uid, run, state, erased, mode, content, sampled, kinds, retain_until, shared, labels, declared_at, closing_at,
       closed_at, never_closed, now() AS opened_at, clock_timestamp() AS read_at
FROM runs
WHERE scope_id = $1 AND run_uid = ANY($6::uuid[]) AND (declared_at, run_uid) > ($2, $3) AND declared_at < $4
ORDER BY declared_at, run_uid
LIMIT $5

-- name: run_named one run
SELECT run_uid, run, state, erased, mode, content, sampled, kinds, retain_until, shared, labels, declared_at, closing_at,
       closed_at, never_closed, now() AS opened_at, clock_timestamp() AS read_at
FROM runs
WHERE scope_id = $1 AND run = $2

-- name: range_gaps what is missing by number
SELECT session, said_by, reason, sequences
FROM gaps
WHERE scope_id = $1 AND run_uid = $2 AND exchange IS NULL AND session IS NOT NULL AND sequences IS NOT NULL
ORDER BY session, array_position(ARRAY['store', 'client', 'count'], said_by), gap_id

-- name: counted_gaps how many observations are missing by reason, as far as no number tells them apart
SELECT g.said_by, g.reason,
       coalesce(sum(CASE WHEN g.exchange IS NULL THEN g.merged WHEN g.sequence IS NULL THEN g.times END), 0)::bigint AS missing
FROM gaps g
WHERE g.scope_id = $1 AND g.run_uid = $2 AND g.superseded_by IS NULL
GROUP BY g.said_by, g.reason

-- name: numbered_parts how many parts of each session were stored, and with which numbers: one bit each, 64 a row; all parts are read
SELECT session, sequence >> 6 AS block, bit_or(1::bigint << (sequence & 63)::integer) AS bits, count(*) AS parts
FROM parts
WHERE scope_id = $1 AND run_uid = $2
GROUP BY session, sequence >> 6

-- name: attempts_of_run what was told of a run's attempts, first ones first
SELECT exchange, attempt, dispatch, settlement, dispatch_conflict, settlement_conflict, first_at
FROM attempts
WHERE scope_id = $1 AND run_uid = $2
ORDER BY first_at, exchange, attempt
LIMIT $3

-- name: parts_of_run a run's parts, first ones first; index parts_by_run
SELECT exchange, attempt, kind, evidence, received_at, stored_at
FROM parts
WHERE scope_id = $1 AND run_uid = $2
ORDER BY stored_at, evidence
LIMIT $3

-- name: named_gaps what is missing of a run by identity, the strongest first; index gaps_pkey
SELECT exchange, attempt, kind, said_by, reason, first_at
FROM gaps
WHERE scope_id = $1 AND run_uid = $2 AND exchange IS NOT NULL AND superseded_by IS NULL
ORDER BY array_position(ARRAY['store', 'client', 'count'], said_by), first_at, gap_id
LIMIT $3

-- name: gaps_of_run what is missing of a run, after one gap; index gaps_pkey
SELECT gap_id, said_by, reason, session, sequences, merged, exchange, attempt, kind, sequence, times, first_at, last_at,
       superseded_by, now() AS opened_at, clock_timestamp() AS read_at
FROM gaps
WHERE scope_id = $1 AND run_uid = $2 AND gap_id > $3
ORDER BY gap_id
LIMIT $4

-- name: gap_of_identity what was said of an identity that has no part, the strongest first
SELECT g.gap_id, g.said_by, g.reason, g.session, g.sequences, g.merged, g.exchange, g.attempt, g.kind, g.sequence, g.times,
       g.first_at, g.last_at, g.superseded_by, now() AS opened_at, clock_timestamp() AS read_at
FROM runs r
JOIN gaps g ON g.scope_id = r.scope_id AND g.run_uid = r.run_uid AND g.exchange = $3 AND g.attempt = $4 AND g.kind = $5
WHERE r.scope_id = $1 AND r.run = $2
ORDER BY array_position(ARRAY['store', 'client', 'count'], g.said_by), g.first_at
LIMIT 1

-- name: attempts_by_ref attempts that carry a reference's keyed hash, after ($3, $4); index attempts_by_ref
SELECT f.run, f.exchange, f.attempt, f.dispatch, f.settlement, f.dispatch_conflict, f.settlement_conflict, f.first_at, f.tie,
       now() AS opened_at, clock_timestamp() AS read_at
FROM (
    SELECT r.run, a.exchange, a.attempt, a.dispatch, a.settlement, a.dispatch_conflict, a.settlement_conflict, a.first_at,
           md5(a.run_uid::text || ' ' || a.exchange || ' ' || a.attempt)::uuid AS tie
    FROM attempts a
    JOIN runs r ON r.scope_id = a.scope_id AND r.run_uid = a.run_uid
    WHERE a.scope_id = $1 AND a.refs @> ARRAY[$2::bytea]
) AS f
WHERE (f.first_at, f.tie) > ($3, $4)
ORDER BY f.first_at, f.tie
LIMIT $5

-- name: attempt_of_exchange one attempt ($4; null: the last) among all of its exchange of which anything was told, stored or missed
WITH f AS (
    SELECT r.run_uid, s.attempt, min(s.at) AS first_at, md5($3 || ' ' || s.attempt)::uuid AS tie
    FROM runs r
    CROSS JOIN LATERAL (
        SELECT a.attempt, a.first_at AS at
        FROM attempts a
        WHERE a.scope_id = r.scope_id AND a.run_uid = r.run_uid AND a.exchange = $3
        UNION ALL
        SELECT p.attempt, p.received_at
        FROM parts p
        WHERE p.scope_id = r.scope_id AND p.run_uid = r.run_uid AND p.exchange = $3
        UNION ALL
        SELECT g.attempt, g.first_at
        FROM gaps g
        WHERE g.scope_id = r.scope_id AND g.run_uid = r.run_uid AND g.exchange = $3 AND g.superseded_by IS NULL
    ) AS s
    WHERE r.scope_id = $1 AND r.run = $2
    GROUP BY r.run_uid, s.attempt
), n AS (
    SELECT f.run_uid, f.attempt, f.first_at, row_number() OVER w AS place, count(*) OVER () AS attempts,
           lag(f.attempt) OVER w AS previous, lead(f.attempt) OVER w AS following
    FROM f
    WINDOW w AS (ORDER BY f.first_at, f.tie)
)
SELECT $3::text AS exchange, n.attempt, n.first_at, n.place, n.attempts, n.previous, n.following,
       coalesce(a.dispatch, 'unknown') AS dispatch, coalesce(a.settlement, 'unknown') AS settlement,
       a.dispatch_conflict, a.settlement_conflict
FROM n
LEFT JOIN attempts a ON a.scope_id = $1 AND a.run_uid = n.run_uid AND a.exchange = $3 AND a.attempt = n.attempt
WHERE CASE WHEN $4::text IS NULL THEN n.following IS NULL ELSE n.attempt = $4 END
