-- What `verify` asks of the proof log and of what its leaves are about.

-- name: part_entries which part leaf stands at some indexes
SELECT idx, subject FROM log_entries WHERE idx = ANY($1::bigint[]) AND kind = 'part'

-- name: not_purged which of these parts are not on their way out, though a leaf says that they are
SELECT p.scope_id, p.evidence
FROM unnest($1::uuid[], $2::uuid[]) AS w (scope_id, evidence)
JOIN parts p ON p.scope_id = w.scope_id AND p.evidence = w.evidence
WHERE p.state NOT IN ('purging', 'purged')

-- name: purges_unlogged which of these parts no purge leaf in the log is about
SELECT w.scope_id, w.evidence
FROM unnest($1::uuid[], $2::uuid[]) AS w (scope_id, evidence)
WHERE NOT EXISTS (SELECT 1 FROM log_entries e WHERE e.subject = w.evidence AND e.kind = 'purge' AND e.scope_id = w.scope_id)

-- name: closings_after closings by key
SELECT scope_id, run_uid, closed_at, opening, record
FROM closings
WHERE (scope_id, run_uid, closed_at) > ($1, $2, $3)
ORDER BY scope_id, run_uid, closed_at
LIMIT $4

-- name: closed_before which of these runs were closed by code that kept no record of what it committed to
SELECT r.scope_id, r.run_uid
FROM unnest($1::uuid[], $2::uuid[]) AS w (scope_id, run_uid)
JOIN runs r ON r.scope_id = w.scope_id AND r.run_uid = w.run_uid
WHERE r.close_opening IS NOT NULL

-- name: closings_of every closing of some runs
SELECT c.scope_id, c.run_uid, c.closed_at, c.opening, c.record
FROM unnest($1::uuid[], $2::uuid[]) AS w (scope_id, run_uid)
JOIN closings c ON c.scope_id = w.scope_id AND c.run_uid = w.run_uid

-- name: holds every hold, and whether it was released
SELECT scope_id, hold_id, released_at IS NOT NULL AS released FROM holds

-- name: still_live which of these buckets have not expired, though a leaf says so
SELECT scope_id, bucket_id FROM buckets WHERE bucket_id = ANY($1::uuid[]) AND state = 'live'

-- name: entries_beyond entries after the end
SELECT count(*) FROM log_entries WHERE idx >= $1

-- name: tiles_beyond tiles that a tree of this size has not filled
SELECT count(*) FROM log_tiles WHERE tile >= $1::bigint >> (8 * (level + 1))

-- name: checkpoints what was signed for sizes above one and up to another
SELECT size, note FROM log_checkpoints WHERE size > $1 AND size <= $2 ORDER BY size

-- name: checkpoints_beyond what was signed for more than there is
SELECT count(*) FROM log_checkpoints WHERE size > $1
