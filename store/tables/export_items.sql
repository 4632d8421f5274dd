-- What goes into a bundle besides the parts themselves: leaves, closings, access records.

-- name: size_classes of some parts, so that no more is read at once than there is room for
SELECT evidence, size_class FROM parts WHERE scope_id = $1 AND evidence = ANY($2::uuid[])

-- name: leaves about some subjects that are among the first $3, but not those of parts that were lost and written again; index
-- log_entries_by_subject
SELECT e.subject, e.kind, e.idx, e.leaf
FROM log_entries e
WHERE e.subject = ANY($1::uuid[]) AND e.kind = ANY($2::text[]) AND e.idx < $3
  AND (e.kind <> 'part' OR e.idx > coalesce((SELECT l.idx FROM lost_evidence l WHERE l.scope_id = e.scope_id AND l.evidence = e.subject), -1))
ORDER BY e.idx

-- name: closings the records that close leaves of some runs commit to, the last first; a run without any has one row of nulls
SELECT r.run_uid, c.opening, c.record
FROM runs r
LEFT JOIN closings c ON c.scope_id = r.scope_id AND c.run_uid = r.run_uid
WHERE r.scope_id = $1 AND r.run_uid = ANY($2::uuid[])
ORDER BY r.run_uid, c.closed_at DESC

-- name: accesses of some parts after ($3, $4, $5) and until $6; index accesses_by_evidence
SELECT evidence, at, access_id, key_id, role, purpose, outcome
FROM accesses
WHERE scope_id = $1 AND evidence = ANY($2::uuid[]) AND at <= $6 AND (evidence, at, access_id) > ($3, $4, $5)
ORDER BY evidence, at, access_id
LIMIT $7
