-- What `verify` reads: everything, in bounded batches, each from one instant.

-- name: from_one_instant the transaction sees one instant and writes nothing
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY

-- name: parts_after parts by key, with what their metadata names
SELECT p.scope_id, p.evidence, p.run_uid, r.run, p.exchange, p.attempt, p.kind, p.bucket_id, p.span_start, p.session, p.sequence,
    p.size_class, p.media_type, p.completeness, p.vantage, p.source_set, s.sources, s.versions, p.captured_at, p.received_at,
    p.commitment, p.meta_commitment, p.meta_opening, p.state, b.state AS bucket_state, b.span_start AS bucket_span
FROM parts p
LEFT JOIN runs r ON r.scope_id = p.scope_id AND r.run_uid = p.run_uid
LEFT JOIN buckets b ON b.scope_id = p.scope_id AND b.bucket_id = p.bucket_id
LEFT JOIN source_sets s ON s.scope_id = p.scope_id AND s.set_id = p.source_set
WHERE (p.scope_id, p.evidence) > ($1, $2)
ORDER BY p.scope_id, p.evidence
LIMIT $3

-- name: parts_named as parts_after, for parts that were found at fault: they may have changed meanwhile
SELECT p.scope_id, p.evidence, p.run_uid, r.run, p.exchange, p.attempt, p.kind, p.bucket_id, p.span_start, p.session, p.sequence,
    p.size_class, p.media_type, p.completeness, p.vantage, p.source_set, s.sources, s.versions, p.captured_at, p.received_at,
    p.commitment, p.meta_commitment, p.meta_opening, p.state, b.state AS bucket_state, b.span_start AS bucket_span
FROM unnest($1::uuid[], $2::uuid[]) AS w (scope_id, evidence)
JOIN parts p ON p.scope_id = w.scope_id AND p.evidence = w.evidence
LEFT JOIN runs r ON r.scope_id = p.scope_id AND r.run_uid = p.run_uid
LEFT JOIN buckets b ON b.scope_id = p.scope_id AND b.bucket_id = p.bucket_id
LEFT JOIN source_sets s ON s.scope_id = p.scope_id AND s.set_id = p.source_set

-- name: bodies_of the bodies of some parts of one span
SELECT b.scope_id, b.evidence, b.bucket_id, b.wrapped, b.exact_bytes, b.ciphertext
FROM unnest($2::uuid[], $3::uuid[]) AS w (scope_id, evidence)
JOIN bodies b ON b.span_start = $1 AND b.scope_id = w.scope_id AND b.evidence = w.evidence

-- name: bodies_after bodies by key, with what their part says of them
SELECT b.span_start, b.scope_id, b.evidence, p.state, p.span_start AS part_span
FROM bodies b LEFT JOIN parts p ON p.scope_id = b.scope_id AND p.evidence = b.evidence
WHERE b.span_start >= $1 AND (b.span_start, b.scope_id, b.evidence) > ($1, $2, $3)
ORDER BY b.span_start, b.scope_id, b.evidence
LIMIT $4

-- name: bodies_stray which of these bodies are still there, without a part that may have one
SELECT b.scope_id, b.evidence
FROM unnest($1::timestamptz[], $2::uuid[], $3::uuid[]) AS w (span_start, scope_id, evidence)
JOIN bodies b ON b.span_start = w.span_start AND b.scope_id = w.scope_id AND b.evidence = w.evidence
LEFT JOIN parts p ON p.scope_id = b.scope_id AND p.evidence = b.evidence AND p.span_start = b.span_start
WHERE p.state IS NULL OR p.state IN ('purged', 'lost_in_restore')

-- name: leaves_after leaves that wait for the log, by id
SELECT id, scope_id, leaf FROM log_queue WHERE id > $1 ORDER BY id LIMIT $2

-- name: committed what parts were committed to when they were stored
SELECT w.place, p.bucket_id, p.commitment, p.meta_commitment, p.stored_at
FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY AS w (scope_id, evidence, place)
JOIN parts p ON p.scope_id = w.scope_id AND p.evidence = w.evidence

-- name: evidence_after ids of parts, by key
SELECT scope_id, evidence FROM parts WHERE (scope_id, evidence) > ($1, $2) ORDER BY scope_id, evidence LIMIT $3

-- name: buckets_after buckets by key
SELECT scope_id, bucket_id, span_start, state, coalesce(key_id, bucket_id) AS key_id,
    array_remove(ARRAY[bucket_id, key_id, old_key_id], NULL) AS keys
FROM buckets
WHERE (scope_id, bucket_id) > ($1, $2) ORDER BY scope_id, bucket_id LIMIT $3

-- name: superseded_after gaps that say that a part came after all, with whether there is that part
SELECT g.scope_id, g.run_uid, g.gap_id,
    EXISTS (SELECT 1 FROM parts p WHERE p.scope_id = g.scope_id AND p.evidence = g.superseded_by AND p.run_uid = g.run_uid
            AND p.exchange = g.exchange AND p.attempt = g.attempt AND p.kind = g.kind) AS there
FROM gaps g
WHERE (g.scope_id, g.run_uid, g.gap_id) > ($1, $2, $3) AND g.superseded_by IS NOT NULL
ORDER BY g.scope_id, g.run_uid, g.gap_id
LIMIT $4
