-- What goes when metadata is kept no longer. Rows are deleted by functions of the owner, which refuse what is younger,
-- held, readable or on its way out.

-- name: due_runs closed runs whose metadata is over by an instant and of which nothing is left to be kept for
SELECT r.scope_id, r.run_uid, r.run
FROM scopes s
CROSS JOIN LATERAL (
    SELECT r.scope_id, r.run_uid, r.run
    FROM runs r
    WHERE r.scope_id = s.scope_id AND r.state = 'closed' AND r.closed_at <= $1::timestamptz - make_interval(secs => s.metadata_retention_s)
      AND may_forget(r.scope_id, r.run_uid)
    ORDER BY r.closed_at
    LIMIT $2
) AS r
LIMIT $2

-- name: may whether that is still so, under the run's lock
SELECT may_forget($1, $2)

-- name: parts_of_run some parts of a run that is locked, with why they went
SELECT p.evidence, p.exchange, p.attempt, p.kind, p.purge_reason
FROM parts p
WHERE p.scope_id = $1 AND p.run_uid = $2
LIMIT $3

-- name: forget_parts parts whose marks were left
SELECT forget_parts($1, $2, $3::uuid[])

-- name: forget_run a run without parts
SELECT forget_run($1, $2)

-- name: scopes every scope
SELECT scope_id FROM scopes ORDER BY scope_id

-- name: forget_source_sets of so many sets of a scope beyond one those that nobody uses
SELECT gone, seen, last FROM forget_source_sets($1, $2, $3)
