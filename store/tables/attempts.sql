-- name: tell add what runtimes said of attempts; the first word stays, another one is kept as a conflict
INSERT INTO attempts (scope_id, run_uid, exchange, attempt, dispatch, settlement, dispatch_conflict, settlement_conflict,
    first_at, refs)
SELECT t.scope_id, t.run_uid, t.exchange, t.attempt, t.dispatch, t.settlement, t.dispatch_conflict, t.settlement_conflict,
    t.first_at, array_remove(ARRAY[t.ref_1, t.ref_2, t.ref_3, t.ref_4], NULL)
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::timestamptz[],
    $10::bytea[], $11::bytea[], $12::bytea[], $13::bytea[])
    AS t (scope_id, run_uid, exchange, attempt, dispatch, settlement, dispatch_conflict, settlement_conflict, first_at,
        ref_1, ref_2, ref_3, ref_4)
ON CONFLICT ON CONSTRAINT attempts_pkey DO UPDATE SET
    dispatch = CASE attempts.dispatch WHEN 'unknown' THEN EXCLUDED.dispatch ELSE attempts.dispatch END,
    settlement = CASE attempts.settlement WHEN 'unknown' THEN EXCLUDED.settlement ELSE attempts.settlement END,
    dispatch_conflict = coalesce(
        attempts.dispatch_conflict,
        CASE WHEN attempts.dispatch <> 'unknown' AND EXCLUDED.dispatch NOT IN ('unknown', attempts.dispatch)
            THEN EXCLUDED.dispatch ELSE EXCLUDED.dispatch_conflict END),
    settlement_conflict = coalesce(
        attempts.settlement_conflict,
        CASE WHEN attempts.settlement <> 'unknown' AND EXCLUDED.settlement NOT IN ('unknown', attempts.settlement)
            THEN EXCLUDED.settlement ELSE EXCLUDED.settlement_conflict END),
    first_at = least(attempts.first_at, EXCLUDED.first_at),
    refs = ARRAY(
        SELECT known.ref
        FROM (SELECT both_of.ref, min(both_of.place) AS place
              FROM unnest(attempts.refs || EXCLUDED.refs) WITH ORDINALITY AS both_of (ref, place)
              GROUP BY both_of.ref) AS known
        ORDER BY known.place
        LIMIT 4)
