-- name: put a set of bindings; equal sets share one row
INSERT INTO source_sets (scope_id, set_id, sources, versions)
VALUES ($1, $2, $3, $4)
ON CONFLICT ON CONSTRAINT source_sets_pkey DO NOTHING
