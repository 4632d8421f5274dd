-- name: parts_newest keys of a scope's parts before ($2, $3) and not before $4; index parts_by_stored
SELECT evidence, span_start, stored_at, run_uid, exchange, attempt, kind, now() AS opened_at
FROM parts
WHERE scope_id = $1 AND (stored_at, evidence) < ($2, $3) AND stored_at >= $4
ORDER BY stored_at DESC, evidence DESC
LIMIT $5

-- name: parts_oldest keys of a scope's parts after ($2, $3) and before $4; index parts_by_stored
SELECT evidence, span_start, stored_at, run_uid, exchange, attempt, kind, now() AS opened_at
FROM parts
WHERE scope_id = $1 AND (stored_at, evidence) > ($2, $3) AND stored_at < $4
ORDER BY stored_at, evidence
LIMIT $5

-- name: run_parts_newest keys of one run's parts before ($2, $3) and not before $4; index parts_by_run
SELECT evidence, span_start, stored_at, run_uid, exchange, attempt, kind, now() AS opened_at
FROM parts
WHERE scope_id = $1 AND run_uid = (SELECT run_uid FROM runs WHERE scope_id = $1 AND run = $6)
  AND (stored_at, evidence) < ($2, $3) AND stored_at >= $4
ORDER BY stored_at DESC, evidence DESC
LIMIT $5

-- name: run_parts_oldest keys of one run's parts after ($2, $3) and before $4; index parts_by_run
SELECT evidence, span_start, stored_at, run_uid, exchange, attempt, kind, now() AS opened_at
FROM parts
WHERE scope_id = $1 AND run_uid = (SELECT run_uid FROM runs WHERE scope_id = $1 AND run = $6)
  AND (stored_at, evidence) > ($2, $3) AND stored_at < $4
ORDER BY stored_at, evidence
LIMIT $5

-- name: runs_parts_newest keys of some runs' parts before ($2, $3) and not before $4: each run's first few by parts_by_run
SELECT p.evidence, p.span_start, p.stored_at, p.run_uid, p.exchange, p.attempt, p.kind, now() AS opened_at
FROM unnest($6::uuid[]) AS r (run_uid)
CROSS JOIN LATERAL (
    SELECT evidence, span_start, stored_at, run_uid, exchange, attempt, kind
    FROM parts
    WHERE scope_id = $1 AND run_uid = r.run_uid AND (stored_at, evidence) < ($2, $3) AND stored_at >= $4
    ORDER BY stored_at DESC, evidence DESC
    LIMIT $5
) AS p
ORDER BY p.stored_at DESC, p.evidence DESC
LIMIT $5

-- name: runs_parts_oldest keys of some runs' parts after ($2, $3) and before $4: each run's first few by parts_by_run
SELECT p.evidence, p.span_start, p.stored_at, p.run_uid, p.exchange, p.attempt, p.kind, now() AS opened_at
FROM unnest($6::uuid[]) AS r (run_uid)
CROSS JOIN LATERAL (
    SELECT evidence, span_start, stored_at, run_uid, exchange, attempt, kind
    FROM parts
    WHERE scope_id = $1 AND run_uid = r.run_uid AND (stored_at, evidence) > ($2, $3) AND stored_at < $4
    ORDER BY stored_at, evidence
    LIMIT $5
) AS p
ORDER BY p.stored_at, p.evidence
LIMIT $5

-- name: facts what is known of some parts in one instant; $3 and $4 are their first and last span
SELECT p.evidence, r.run, p.exchange, p.attempt, p.kind, p.size_class, p.media_type, p.completeness, p.vantage,
       p.captured_at, p.received_at, p.stored_at, p.session, p.sequence, p.state, p.purge_reason,
       r.retain_until, r.erased, r.labels,
       b.state <> 'live' AS bucket_expired,
       (b.state <> 'live' OR r.retain_until <= now()) AND is_held(p.scope_id, p.run_uid, p.evidence) AS held,
       coalesce(a.dispatch, 'unknown') AS dispatch, coalesce(a.settlement, 'unknown') AS settlement,
       s.sources, s.versions,
       CASE WHEN p.source_set IS NOT NULL THEN (
           SELECT json_agg(json_build_array(f.source, f.revoked_at IS NOT NULL, f.latest, f.audience, ARRAY(
               SELECT v.version FROM source_versions v
               WHERE v.scope_id = f.scope_id AND v.source = f.source AND v.withdrawn_at IS NOT NULL)))
           FROM sources f WHERE f.scope_id = p.scope_id AND f.source = ANY(s.sources)
       ) END AS source_facts,
       o.exact_bytes,
       EXISTS (SELECT 1 FROM log_entries e WHERE e.subject = p.evidence AND e.kind = 'part'
               AND e.idx < (SELECT published_size FROM log_state)
               AND e.idx > coalesce((SELECT l.idx FROM lost_evidence l WHERE l.scope_id = p.scope_id AND l.evidence = p.evidence), -1)) AS published,
       coalesce(c.policy ->> 'unknown_sources', 'refuse') AS unknown_sources,
       now() AS observed_at, clock_timestamp() AS closed_at
FROM parts p
JOIN runs r ON r.scope_id = p.scope_id AND r.run_uid = p.run_uid
JOIN buckets b ON b.scope_id = p.scope_id AND b.bucket_id = p.bucket_id
JOIN scopes c ON c.scope_id = p.scope_id
LEFT JOIN attempts a
    ON a.scope_id = p.scope_id AND a.run_uid = p.run_uid AND a.exchange = p.exchange AND a.attempt = p.attempt
LEFT JOIN source_sets s ON s.scope_id = p.scope_id AND s.set_id = p.source_set
LEFT JOIN LATERAL (
    SELECT exact_bytes
    FROM bodies
    WHERE span_start = p.span_start AND span_start BETWEEN $3 AND $4
      AND scope_id = p.scope_id AND evidence = p.evidence
    OFFSET 0  -- else this is hashed: all bodies of the spans are read for one page
) AS o ON true
WHERE p.scope_id = $1 AND p.evidence = ANY($2::uuid[])

-- name: times when something became of a part, or will: for a reader who is told why it is not readable
SELECT r.retain_until, b.expired_at, p.purging_at, p.purged_at, f.revoked_at, f.withdrawn_at
FROM parts p
JOIN runs r ON r.scope_id = p.scope_id AND r.run_uid = p.run_uid
JOIN buckets b ON b.scope_id = p.scope_id AND b.bucket_id = p.bucket_id
LEFT JOIN source_sets s ON s.scope_id = p.scope_id AND s.set_id = p.source_set
CROSS JOIN LATERAL (
    SELECT min(o.revoked_at) AS revoked_at, min(v.withdrawn_at) AS withdrawn_at
    FROM unnest(s.sources, s.versions) AS bound (source, version)
    LEFT JOIN sources o ON o.scope_id = p.scope_id AND o.source = bound.source
    LEFT JOIN source_versions v ON v.scope_id = p.scope_id AND v.source = bound.source AND v.version = bound.version
) AS f
WHERE p.scope_id = $1 AND p.evidence = $2

-- name: key_of_evidence where one part lies, by its evidence reference
SELECT evidence, span_start, stored_at, run_uid, exchange, attempt, kind, now() AS opened_at
FROM parts
WHERE scope_id = $1 AND evidence = $2

-- name: key_of_identity where one part lies, by its identity
SELECT p.evidence, p.span_start, p.stored_at, p.run_uid, p.exchange, p.attempt, p.kind, now() AS opened_at
FROM runs r
JOIN parts p ON p.scope_id = r.scope_id AND p.run_uid = r.run_uid AND p.exchange = $3 AND p.attempt = $4 AND p.kind = $5
WHERE r.scope_id = $1 AND r.run = $2

-- name: runs_of_label the first runs of a scope that carry a label; index runs_by_label_in_scope, which holds the scope too
SELECT run_uid FROM runs WHERE labels_in_scope(scope_id, labels) @> ARRAY[$1::uuid::text || ' ' || $2::text] LIMIT $3

-- name: instants the window of a page that found nothing to look at
SELECT now() AS opened_at, clock_timestamp() AS closed_at
