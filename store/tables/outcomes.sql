-- What became of observations, for the runtime that posted them. Metadata only; the wrapped secret serves to compare bytes.

-- name: sealed_of what a repeat of an identity is compared with
SELECT parts.state, parts.purge_reason, parts.commitment, parts.bucket_id, parts.run_uid, runs.run, parts.exchange,
    parts.attempt, parts.kind, runs.erased, runs.retain_until <= now() AS expired, bodies.bucket_id AS wrapped_in, bodies.wrapped
FROM parts
JOIN runs ON runs.scope_id = parts.scope_id AND runs.run_uid = parts.run_uid
LEFT JOIN bodies ON bodies.span_start = parts.span_start AND bodies.scope_id = parts.scope_id AND bodies.evidence = parts.evidence
WHERE parts.scope_id = $1 AND parts.evidence = $2

-- name: stored_part one stored part by its evidence reference
SELECT runs.run, parts.exchange, parts.attempt, parts.kind, parts.evidence, parts.stored_at,
    coalesce(attempts.dispatch, 'unknown') AS dispatch, coalesce(attempts.settlement, 'unknown') AS settlement
FROM parts
JOIN runs ON runs.scope_id = parts.scope_id AND runs.run_uid = parts.run_uid
LEFT JOIN attempts ON attempts.scope_id = parts.scope_id AND attempts.run_uid = parts.run_uid
    AND attempts.exchange = parts.exchange AND attempts.attempt = parts.attempt
WHERE parts.scope_id = $1 AND parts.evidence = $2

-- name: outcomes_of_identity the stored part of an identity and the gaps that name it; a part comes first
SELECT 0 AS rank, parts.evidence, parts.stored_at, NULL::text AS reason, parts.stored_at AS at
FROM runs
JOIN parts ON parts.scope_id = runs.scope_id AND parts.run_uid = runs.run_uid
WHERE runs.scope_id = $1 AND runs.run = $2 AND parts.exchange = $3 AND parts.attempt = $4 AND parts.kind = $5
UNION ALL
SELECT CASE gaps.said_by WHEN 'store' THEN 1 WHEN 'client' THEN 2 ELSE 3 END, gaps.gap_id, NULL, gaps.reason, gaps.last_at
FROM runs
JOIN gaps ON gaps.scope_id = runs.scope_id AND gaps.run_uid = runs.run_uid
WHERE runs.scope_id = $1 AND runs.run = $2 AND gaps.exchange = $3 AND gaps.attempt = $4 AND gaps.kind = $5
ORDER BY rank, at DESC
LIMIT 1

-- name: attempt_words what the runtime said of an attempt
SELECT attempts.dispatch, attempts.settlement
FROM runs
JOIN attempts ON attempts.scope_id = runs.scope_id AND attempts.run_uid = runs.run_uid
WHERE runs.scope_id = $1 AND runs.run = $2 AND attempts.exchange = $3 AND attempts.attempt = $4

-- name: outcomes_of_run every identity of a run that was stored or is named in a gap, in identity order
SELECT DISTINCT ON (known.exchange, known.attempt, known.kind)
    known.exchange, known.attempt, known.kind, known.evidence, known.stored_at, known.reason,
    coalesce(attempts.dispatch, 'unknown') AS dispatch, coalesce(attempts.settlement, 'unknown') AS settlement
FROM runs
JOIN LATERAL (
    SELECT 0 AS rank, parts.exchange, parts.attempt, parts.kind, parts.evidence, parts.stored_at, NULL::text AS reason,
        parts.stored_at AS at
    FROM parts
    WHERE parts.scope_id = runs.scope_id AND parts.run_uid = runs.run_uid
        AND (parts.exchange, parts.attempt, parts.kind) > ($3, $4, $5)
    UNION ALL
    SELECT CASE gaps.said_by WHEN 'store' THEN 1 WHEN 'client' THEN 2 ELSE 3 END, gaps.exchange, gaps.attempt, gaps.kind,
        gaps.gap_id, NULL, gaps.reason, gaps.last_at
    FROM gaps
    WHERE gaps.scope_id = runs.scope_id AND gaps.run_uid = runs.run_uid
        AND (gaps.exchange, gaps.attempt, gaps.kind) > ($3, $4, $5)
) AS known ON true
LEFT JOIN attempts ON attempts.scope_id = runs.scope_id AND attempts.run_uid = runs.run_uid
    AND attempts.exchange = known.exchange AND attempts.attempt = known.attempt
WHERE runs.scope_id = $1 AND runs.run = $2
ORDER BY known.exchange, known.attempt, known.kind, known.rank, known.at DESC
LIMIT $6
