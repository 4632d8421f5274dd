-- name: lock_runs one at a time may change the gaps of a run; $1 are its runs as numbers, in order
SELECT pg_advisory_xact_lock(w.run) FROM unnest($1::bigint[]) AS w (run)

-- name: named_counts how many identities the gaps of runs name
SELECT g.scope_id, g.run_uid, count(*) AS names
FROM unnest($1::uuid[], $2::uuid[]) AS w (scope_id, run_uid)
JOIN gaps g ON g.scope_id = w.scope_id AND g.run_uid = w.run_uid
WHERE g.exchange IS NOT NULL
GROUP BY g.scope_id, g.run_uid

-- name: named which of these were said before
SELECT w.place, g.gap_id, g.session, g.sequence, g.times, g.first_at, g.last_at
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
    WITH ORDINALITY AS w (scope_id, run_uid, exchange, attempt, kind, said_by, reason, place)
JOIN gaps g ON g.scope_id = w.scope_id AND g.run_uid = w.run_uid AND g.exchange = w.exchange AND g.attempt = w.attempt
    AND g.kind = w.kind AND g.said_by = w.said_by AND g.reason = w.reason
WHERE g.exchange IS NOT NULL

-- name: put_named write names; what others than the store say of a part that is stored is superseded from the start
INSERT INTO gaps (scope_id, run_uid, gap_id, exchange, attempt, kind, said_by, reason, session, sequence, times, first_at, last_at,
    superseded_by)
SELECT n.scope_id, n.run_uid, n.gap_id, n.exchange, n.attempt, n.kind, n.said_by, n.reason, n.session, n.sequence, n.times,
    n.first_at, n.last_at,
    CASE WHEN n.said_by <> 'store' THEN (
        SELECT p.evidence FROM parts p
        WHERE p.scope_id = n.scope_id AND p.run_uid = n.run_uid AND p.exchange = n.exchange AND p.attempt = n.attempt
            AND p.kind = n.kind) END
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
    $10::bigint[], $11::bigint[], $12::timestamptz[], $13::timestamptz[])
    AS n (scope_id, run_uid, gap_id, exchange, attempt, kind, said_by, reason, session, sequence, times, first_at, last_at)
ON CONFLICT ON CONSTRAINT gaps_pkey DO UPDATE SET
    session = EXCLUDED.session, sequence = EXCLUDED.sequence, times = EXCLUDED.times,
    first_at = EXCLUDED.first_at, last_at = EXCLUDED.last_at

-- name: ranges the ranges and counts of runs
SELECT g.scope_id, g.run_uid, g.gap_id, g.session, g.said_by, g.reason, g.sequences, g.merged, g.first_at, g.last_at
FROM unnest($1::uuid[], $2::uuid[]) AS w (scope_id, run_uid)
JOIN gaps g ON g.scope_id = w.scope_id AND g.run_uid = w.run_uid
WHERE g.exchange IS NULL

-- name: put_ranges write ranges and counts; sequences come as the text of a multirange
INSERT INTO gaps (scope_id, run_uid, gap_id, session, said_by, reason, sequences, merged, first_at, last_at)
SELECT r.scope_id, r.run_uid, r.gap_id, r.session, r.said_by, r.reason, r.sequences::int8multirange, r.merged, r.first_at,
    r.last_at
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
    $9::timestamptz[], $10::timestamptz[])
    AS r (scope_id, run_uid, gap_id, session, said_by, reason, sequences, merged, first_at, last_at)
ON CONFLICT ON CONSTRAINT gaps_pkey DO UPDATE SET
    sequences = EXCLUDED.sequences, merged = EXCLUDED.merged, first_at = EXCLUDED.first_at, last_at = EXCLUDED.last_at

-- name: superseded gaps that name what was just stored; other bytes under an identity stay a conflict
SELECT g.scope_id, g.run_uid, g.gap_id, s.evidence
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::uuid[])
    AS s (scope_id, run_uid, exchange, attempt, kind, evidence)
JOIN gaps g ON g.scope_id = s.scope_id AND g.run_uid = s.run_uid
    AND g.exchange = s.exchange AND g.attempt = s.attempt AND g.kind = s.kind
WHERE g.exchange IS NOT NULL AND g.superseded_by IS NULL AND g.reason <> 'identity_conflict'

-- name: supersede mark gaps whose part came after all
UPDATE gaps g
SET superseded_by = s.evidence
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[]) AS s (scope_id, run_uid, gap_id, evidence)
WHERE g.scope_id = s.scope_id AND g.run_uid = s.run_uid AND g.gap_id = s.gap_id
