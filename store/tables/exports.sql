-- What exports were asked for. Nothing here knows anything of content.

-- name: runs_named runs by their names
SELECT run, run_uid FROM runs WHERE scope_id = $1 AND run = ANY($2::text[])

-- name: parts_of_runs the parts of some runs, at most $3; index parts_by_run
SELECT evidence FROM parts WHERE scope_id = $1 AND run_uid = ANY($2::uuid[]) LIMIT $3

-- name: runs_of_parts the runs of some parts
SELECT DISTINCT run_uid FROM parts WHERE scope_id = $1 AND evidence = ANY($2::uuid[])

-- name: oldest_queued the leaf that waits longest for its place in the log
SELECT leaf FROM log_queue ORDER BY id LIMIT 1

-- name: unpublished how many of these parts have no leaf below $3, and are not so old ($4) that none can still be waiting
SELECT count(*)
FROM parts p
LEFT JOIN log_entries e ON e.subject = p.evidence AND e.kind = 'part'
    AND e.idx > coalesce((SELECT l.idx FROM lost_evidence l WHERE l.scope_id = p.scope_id AND l.evidence = p.evidence), -1)
WHERE p.scope_id = $1 AND p.evidence = ANY($2::uuid[]) AND (e.idx >= $3 OR (e.idx IS NULL AND p.stored_at >= $4))

-- name: insert an export that can be fetched from now on
INSERT INTO exports (scope_id, export_id, requested_by, purpose, evidence, runs, anchors, tree_size)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
RETURNING requested_at

-- name: get an export of one key, while it may be fetched
SELECT export_id, requested_at, purpose, evidence, runs, anchors, tree_size
FROM exports
WHERE scope_id = $1 AND export_id = $2 AND requested_by = $3 AND requested_at > now() - make_interval(secs => $4)

-- name: standing how an export of one key stands, while it may be fetched
SELECT export_id, requested_at, purpose, cardinality(evidence), cardinality(runs), anchors, tree_size, state, given_at,
    CASE WHEN beat_at > now() - make_interval(secs => $5) THEN done END
FROM exports
WHERE scope_id = $1 AND export_id = $2 AND requested_by = $3 AND requested_at > now() - make_interval(secs => $4)

-- name: of_key the last exports of one key that may be fetched; index exports_by_time
SELECT export_id, requested_at, purpose, cardinality(evidence), cardinality(runs), anchors, tree_size, state, given_at,
    CASE WHEN beat_at > now() - make_interval(secs => $5) THEN done END
FROM exports
WHERE scope_id = $1 AND requested_by = $2 AND requested_at > now() - make_interval(secs => $3)
ORDER BY requested_at DESC, export_id DESC
LIMIT $4

-- name: begun somebody fetches it
UPDATE exports SET state = CASE state WHEN 'ready' THEN 'begun' ELSE state END, done = 0, beat_at = now()
WHERE scope_id = $1 AND export_id = $2

-- name: beat it is being made, and so many parts are in it
UPDATE exports SET done = $3, beat_at = now() WHERE scope_id = $1 AND export_id = $2

-- name: over it is not being made any more; $3: it was sent to its last byte
UPDATE exports
SET state = CASE WHEN $3 THEN 'given' ELSE state END, given_at = CASE WHEN $3 THEN now() ELSE given_at END, done = NULL
WHERE scope_id = $1 AND export_id = $2

-- name: forget exports of scopes whose metadata retention they have outlived
DELETE FROM exports e USING scopes s
WHERE s.scope_id = e.scope_id AND e.requested_at < now() - make_interval(secs => s.metadata_retention_s)
RETURNING 1 AS one
