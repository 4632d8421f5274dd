-- name: put a set of bindings; equal sets share one row, which nobody forgets while it is put
INSERT INTO source_sets AS s (scope_id, set_id, sources, versions)
VALUES ($1, $2, $3, $4)
ON CONFLICT ON CONSTRAINT source_sets_pkey DO UPDATE SET put_at = now()
