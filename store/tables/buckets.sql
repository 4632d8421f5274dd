-- name: longest_retention_s the longest retention that any scope allows; null without a scope
SELECT max(retention_max_s) FROM scopes

-- name: short_of_buckets whether some scope lacks the buckets of the far end; a probe of one index a scope
SELECT EXISTS (
    SELECT 1 FROM scopes s
    WHERE NOT EXISTS (
        SELECT 1 FROM buckets b
        WHERE b.scope_id = s.scope_id
          AND b.span_start > now() + make_interval(secs => $1 + (SELECT max(retention_max_s) FROM scopes))
    )
)

-- name: missing which scopes have no bucket for which of these spans
SELECT s.scope_id, w.span_start, w.span_end
FROM scopes s CROSS JOIN unnest($1::timestamptz[], $2::timestamptz[]) AS w (span_start, span_end)
WHERE NOT EXISTS (SELECT 1 FROM buckets b WHERE b.scope_id = s.scope_id AND b.span_start = w.span_start)
ORDER BY s.scope_id, w.span_start
LIMIT $3

-- name: insert what a writer finds has its key and its partition; a row made meanwhile by another process stays
INSERT INTO buckets (scope_id, bucket_id, span_start, span_end)
SELECT b.scope_id, b.bucket_id, b.span_start, b.span_end
FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::timestamptz[])
    AS b (scope_id, bucket_id, span_start, span_end)
ON CONFLICT ON CONSTRAINT buckets_span_once DO NOTHING
RETURNING bucket_id

-- name: lock_alone wait for every writer of one bucket and keep others out
SELECT scope_id, bucket_id, span_start, span_end, state
FROM buckets
WHERE scope_id = $1 AND bucket_id = $2
FOR UPDATE

-- name: next_to_expire the key of one of the live buckets whose end is the next to come; index buckets_by_end
SELECT scope_id, coalesce(key_id, bucket_id) AS key_id
FROM buckets
WHERE span_end > now() AND state = 'live'
ORDER BY span_end
LIMIT 1

-- name: due_spans spans whose end has come and that still have something to be destroyed, oldest first
SELECT b.span_start, min(b.span_end) AS span_end,
       bool_or(b.state = 'expired')
           OR EXISTS (SELECT 1 FROM buckets d WHERE d.span_start = b.span_start AND d.state = 'destroyed') AS begun
FROM buckets b
WHERE b.span_end <= now() AND b.state <> 'destroyed'
GROUP BY b.span_start
ORDER BY b.span_start
LIMIT $1

-- name: of_span every bucket of one span, over all scopes
SELECT scope_id, bucket_id, span_start, span_end, state
FROM buckets
WHERE span_start = $1 AND state <> 'destroyed'
ORDER BY scope_id

-- name: runs_over the next runs of a scope, by id, that nobody closed and whose retention was over when a bucket ended
SELECT run_uid, run
FROM runs
WHERE scope_id = $1 AND state <> 'closed' AND retain_until <= $2 AND run_uid > $3
ORDER BY run_uid
LIMIT $4

-- name: alive_in_span how many buckets of a span have not expired yet
SELECT count(*) FROM buckets WHERE span_start = $1 AND state = 'live'

-- name: part_leaves how many parts were ever stored in a bucket, whatever became of them
SELECT (SELECT count(*) FROM bodies WHERE span_start = $3 AND scope_id = $1)
     + (SELECT count(*) FROM parts p
        WHERE p.scope_id = $1 AND p.bucket_id = $2 AND p.state <> 'stored'
          AND NOT EXISTS (SELECT 1 FROM bodies b
                          WHERE b.span_start = $3 AND b.scope_id = $1 AND b.evidence = p.evidence))
     + (SELECT count(*) FROM parts p  -- moved out before, since they are held
        WHERE p.scope_id = $1 AND p.bucket_id = $2 AND p.state = 'stored' AND p.span_start = '9999-01-01 00:00:00+00')
     + (SELECT coalesce(sum(l.leaves), 0) FROM lost_evidence l WHERE l.scope_id = $1 AND l.bucket_id = $2)

-- name: mark_expired from now on the bucket is one act away from being gone
UPDATE buckets SET state = 'expired', expired_at = now() WHERE scope_id = $1 AND bucket_id = $2 AND state = 'live'

-- name: mark_destroyed the bucket's key is gone, so its content is gone from every backup too
UPDATE buckets SET state = 'destroyed', destroyed_at = now()
WHERE scope_id = $1 AND bucket_id = $2 AND state = 'expired'

-- name: oldest_undestroyed since when content that has expired is still on the disk
SELECT min(span_end) FROM buckets WHERE span_end <= now() AND state <> 'destroyed'
