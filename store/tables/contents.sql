-- name: part what decides about reading one part, and what its bytes are checked against; its body is a statement apart
SELECT p.evidence, p.span_start, r.run, p.exchange, p.attempt, p.kind, p.size_class, p.media_type, p.completeness, p.vantage,
       p.captured_at, p.received_at, p.session, p.sequence, p.state, p.purge_reason, p.bucket_id, p.commitment,
       p.meta_commitment, p.meta_opening, r.retain_until, r.erased,
       b.state <> 'live' AS bucket_expired,
       s.sources, s.versions,
       CASE WHEN p.source_set IS NOT NULL THEN (
           SELECT json_agg(json_build_array(f.source, f.revoked_at IS NOT NULL, f.latest, f.audience, ARRAY(
               SELECT v.version FROM source_versions v
               WHERE v.scope_id = f.scope_id AND v.source = f.source AND v.withdrawn_at IS NOT NULL)))
           FROM sources f WHERE f.scope_id = p.scope_id AND f.source = ANY(s.sources)
       ) END AS source_facts,
       coalesce(c.policy ->> 'unknown_sources', 'refuse') AS unknown_sources,
       coalesce((c.policy ->> 'purpose_required')::boolean, false) AS purpose_required,
       now() AS observed_at
FROM parts p
JOIN runs r ON r.scope_id = p.scope_id AND r.run_uid = p.run_uid
JOIN buckets b ON b.scope_id = p.scope_id AND b.bucket_id = p.bucket_id
JOIN scopes c ON c.scope_id = p.scope_id
LEFT JOIN source_sets s ON s.scope_id = p.scope_id AND s.set_id = p.source_set
WHERE p.scope_id = $1 AND p.evidence = $2

-- name: body the bytes of one part as they rest; the span leads to one partition
SELECT bucket_id, wrapped, exact_bytes, ciphertext
FROM bodies
WHERE span_start = $3 AND scope_id = $1 AND evidence = $2
