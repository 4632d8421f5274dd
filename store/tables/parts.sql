-- name: insert parts whose identity nobody has taken; the rest of the batch goes on
INSERT INTO parts (scope_id, evidence, run_uid, exchange, attempt, kind, bucket_id, span_start, session, sequence, size_class,
    media_type, completeness, vantage, source_set, captured_at, received_at, stored_at, commitment, meta_commitment, meta_opening)
SELECT p.scope_id, p.evidence, p.run_uid, p.exchange, p.attempt, p.kind, p.bucket_id, p.span_start, p.session, p.sequence,
    p.size_class, p.media_type, p.completeness, p.vantage, p.source_set, p.captured_at, p.received_at, now(), p.commitment,
    p.meta_commitment, p.meta_opening
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::timestamptz[], $9::text[],
    $10::bigint[], $11::integer[], $12::text[], $13::text[], $14::text[], $15::bytea[], $16::timestamptz[], $17::timestamptz[],
    $18::bytea[], $19::bytea[], $20::bytea[])
    AS p (scope_id, evidence, run_uid, exchange, attempt, kind, bucket_id, span_start, session, sequence, size_class, media_type,
        completeness, vantage, source_set, captured_at, received_at, commitment, meta_commitment, meta_opening)
ON CONFLICT ON CONSTRAINT parts_identity_once DO NOTHING
RETURNING evidence

-- name: holders what stands where identities are taken
SELECT w.place, p.evidence, p.state, p.purge_reason
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[])
    WITH ORDINALITY AS w (scope_id, run_uid, exchange, attempt, kind, place)
JOIN parts p ON p.scope_id = w.scope_id AND p.run_uid = w.run_uid
    AND p.exchange = w.exchange AND p.attempt = w.attempt AND p.kind = w.kind
