-- What an erasure of a subject does to its runs, of which only a keyed hash names it. One scope a statement.

-- name: known whether any run is about a subject
SELECT EXISTS (SELECT 1 FROM runs WHERE scope_id = $1 AND subject = $2)

-- name: declared_since whether there are runs about a subject that are not erased, declared after then
SELECT EXISTS (SELECT 1 FROM runs WHERE scope_id = $1 AND subject = $2 AND NOT erased AND declared_at > $3)

-- name: take runs about a subject that are not erased, declared until then; nobody writes to them until it is committed
SELECT run_uid, run
FROM runs
WHERE scope_id = $1 AND subject = $2 AND NOT erased AND declared_at <= $3
ORDER BY run_uid
LIMIT $4
FOR UPDATE

-- name: set_erased one way
UPDATE runs SET erased = true, narrowed_at = now() WHERE scope_id = $1 AND run_uid = ANY($2::uuid[]) AND NOT erased

-- name: labelled erased runs about a subject that still carry labels, and that nothing holds
SELECT r.run_uid
FROM runs r
WHERE r.scope_id = $1 AND r.subject = $2 AND r.erased AND r.labels <> '{}'
  AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.scope_id = $1 AND h.ended_at IS NULL AND (h.reach = 'scope' OR h.run_uid = r.run_uid))
ORDER BY r.run_uid
LIMIT $3
FOR UPDATE OF r SKIP LOCKED

-- name: clear_labels they might name the subject
UPDATE runs SET labels = '{}' WHERE scope_id = $1 AND run_uid = ANY($2::uuid[])

-- name: open erasures of subjects that are not purged
SELECT scope_id, subject, requested_at FROM erasures WHERE target_kind = 'subject' AND state <> 'purged' ORDER BY scope_id, requested_at
