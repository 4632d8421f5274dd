-- name: found which of these marks were left, and why
SELECT w.place, t.reason
FROM unnest($1::uuid[], $2::bytea[]) WITH ORDINALITY AS w (scope_id, mark, place)
JOIN tombstones t ON t.scope_id = w.scope_id AND t.mark = w.mark

-- name: leave marks of what must never be written again; one that is there keeps its reason
INSERT INTO tombstones (scope_id, mark, reason)
SELECT $1, m.mark, $3
FROM unnest($2::bytea[]) AS m (mark)
ON CONFLICT ON CONSTRAINT tombstones_pkey DO NOTHING
