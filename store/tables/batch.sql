-- What a writer reads and locks for a batch. Locks are taken in this order: buckets, runs, their facts, and last their gaps;
-- each in the order of its key, and with one scope a statement, since a locking read may not span several.
-- Where only one row is looked for, an order makes the planner take the index: else, where one scope or run has nearly all
-- rows, it looks through the table for the first of any other.

-- name: ends until when the runs of a batch are kept, without a lock: for sealing ahead
SELECT r.scope_id, r.run_uid, r.retain_until
FROM unnest($1::uuid[], $2::uuid[]) AS w (scope_id, run_uid)
JOIN runs r ON r.scope_id = w.scope_id AND r.run_uid = w.run_uid

-- name: buckets_at the buckets of scopes whose spans contain an instant, without a lock: for sealing ahead
SELECT w.place, b.scope_id, b.bucket_id, b.span_start, b.span_end, coalesce(b.key_id, b.bucket_id) AS key_id
FROM unnest($1::uuid[], $2::timestamptz[]) WITH ORDINALITY AS w (scope_id, instant, place)
JOIN buckets b ON b.scope_id = w.scope_id AND b.span_start <= w.instant AND b.span_end > w.instant

-- name: lock_buckets keep the buckets of one scope from expiring, and from another key, until the batch is committed
SELECT bucket_id, state, coalesce(key_id, bucket_id) AS key_id
FROM buckets
WHERE scope_id = $1 AND bucket_id = ANY($2::uuid[])
ORDER BY bucket_id
FOR KEY SHARE

-- name: lock_runs the runs of one scope; whoever narrows, erases or holds one waits until the batch is committed
SELECT run_uid, run, erased, mode, content, sampled, kinds, retain_until, now() AS now
FROM runs
WHERE scope_id = $1 AND run_uid = ANY($2::uuid[])
ORDER BY run_uid
FOR SHARE

-- name: source_facts what scopes know now of the sources that a batch depends on
SELECT s.scope_id, s.source, s.latest, s.revoked_at IS NOT NULL AS revoked, s.audience,
       ARRAY(SELECT v.version FROM source_versions v
             WHERE v.scope_id = s.scope_id AND v.source = s.source AND v.withdrawn_at IS NOT NULL) AS withdrawn
FROM unnest($1::uuid[], $2::text[]) AS w (scope_id, source)
JOIN sources s ON s.scope_id = w.scope_id AND s.source = w.source

-- name: scope_demands what scopes demand now, and whether any tombstone is in them, or anything that a restore lost
SELECT s.scope_id, s.policy,
    (SELECT true FROM tombstones t WHERE t.scope_id = s.scope_id ORDER BY t.mark LIMIT 1) IS NOT NULL AS has_tombstones,
    (SELECT true FROM lost_evidence l WHERE l.scope_id = s.scope_id ORDER BY l.evidence LIMIT 1) IS NOT NULL AS has_lost
FROM scopes s
WHERE s.scope_id = ANY($1::uuid[])

-- name: gapped which of these runs have gaps that name something
SELECT w.scope_id, w.run_uid
FROM unnest($1::uuid[], $2::uuid[]) AS w (scope_id, run_uid)
CROSS JOIN LATERAL (
    SELECT g.gap_id FROM gaps g
    WHERE g.scope_id = w.scope_id AND g.run_uid = w.run_uid AND g.exchange IS NOT NULL
    ORDER BY g.exchange
    LIMIT 1
) AS named
