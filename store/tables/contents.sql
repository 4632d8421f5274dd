-- name: parts what decides about reading some parts, and what their bytes are checked against; their bodies come apart
SELECT p.scope_id, p.evidence, p.span_start, r.run, p.exchange, p.attempt, p.kind, p.size_class, p.media_type, p.completeness, p.vantage,
       p.captured_at, p.received_at, p.session, p.sequence, p.state, p.purge_reason, p.bucket_id, p.commitment,
       p.meta_commitment, p.meta_opening, p.stored_at, e.idx, e.leaf, r.retain_until, r.erased,
       b.state <> 'live' AS bucket_expired,
       (b.state <> 'live' OR r.retain_until <= now()) AND is_held(p.scope_id, p.run_uid, p.evidence) AS held,
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
FROM unnest($1::uuid[], $2::uuid[]) AS w (scope_id, evidence)
JOIN parts p ON p.scope_id = w.scope_id AND p.evidence = w.evidence
JOIN runs r ON r.scope_id = p.scope_id AND r.run_uid = p.run_uid
JOIN buckets b ON b.scope_id = p.scope_id AND b.bucket_id = p.bucket_id
JOIN scopes c ON c.scope_id = p.scope_id
LEFT JOIN source_sets s ON s.scope_id = p.scope_id AND s.set_id = p.source_set
LEFT JOIN LATERAL (
    SELECT idx, leaf
    FROM log_entries
    WHERE subject = p.evidence AND kind = 'part'
      -- Of what was lost and written again a later leaf counts.
      AND idx > coalesce((SELECT l.idx FROM lost_evidence l WHERE l.scope_id = p.scope_id AND l.evidence = p.evidence), -1)
    ORDER BY idx
    LIMIT 1
) AS e ON true

-- name: bodies the bytes of some parts of one span as they rest; the span leads to one partition
SELECT b.scope_id, b.evidence, b.bucket_id, b.wrapped, b.exact_bytes, b.ciphertext
FROM unnest($2::uuid[], $3::uuid[]) AS w (scope_id, evidence)
JOIN bodies b ON b.span_start = $1 AND b.scope_id = w.scope_id AND b.evidence = w.evidence
