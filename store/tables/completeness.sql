-- name: runs how many runs were declared, by scope and day, and how they ended
SELECT s.name AS scope, (r.declared_at AT TIME ZONE 'UTC')::date AS day, count(*) AS runs,
       count(*) FILTER (WHERE r.state = 'closed' AND NOT r.never_closed) AS closed,
       count(*) FILTER (WHERE r.never_closed) AS never_closed
FROM runs r JOIN scopes s ON s.scope_id = r.scope_id
WHERE ($1::uuid IS NULL OR r.scope_id = $1) AND r.declared_at >= $2
GROUP BY s.name, day
ORDER BY s.name, day DESC

-- name: count a run that ends: its row is locked
UPDATE runs SET counts = count_run(scope_id, run_uid), counted_at = now() WHERE scope_id = $1 AND run_uid = $2

-- name: counted what was counted when those runs ended, unless more was told of them since; a minute for the clocks of apis
SELECT s.name AS scope, (r.declared_at AT TIME ZONE 'UTC')::date AS day, c.key AS word, sum(c.value::bigint)::bigint AS count
FROM runs r JOIN scopes s ON s.scope_id = r.scope_id
CROSS JOIN LATERAL jsonb_each_text(r.counts) AS c
WHERE ($1::uuid IS NULL OR r.scope_id = $1) AND r.declared_at >= $2
  AND NOT EXISTS (SELECT 1 FROM gaps g WHERE g.scope_id = r.scope_id AND g.run_uid = r.run_uid
                  AND g.said_by <> 'count' AND g.last_at > r.counted_at - interval '1 minute')
GROUP BY s.name, day, c.key

-- name: stored how many parts the others have stored, whatever became of them; run by run, or all parts would be read for a few runs
SELECT s.name AS scope, (r.declared_at AT TIME ZONE 'UTC')::date AS day, sum(p.parts)::bigint AS parts
FROM runs r JOIN scopes s ON s.scope_id = r.scope_id
CROSS JOIN LATERAL (SELECT count(*) AS parts FROM parts p WHERE p.scope_id = r.scope_id AND p.run_uid = r.run_uid) AS p
WHERE ($1::uuid IS NULL OR r.scope_id = $1) AND r.declared_at >= $2
  AND (r.counts IS NULL OR EXISTS (SELECT 1 FROM gaps g WHERE g.scope_id = r.scope_id AND g.run_uid = r.run_uid
                                   AND g.said_by <> 'count' AND g.last_at > r.counted_at - interval '1 minute'))
GROUP BY s.name, day

-- name: missing what the others lack, by reason; '' is all reasons together, in which no number counts twice
WITH there AS (
    SELECT s.name AS scope, (r.declared_at AT TIME ZONE 'UTC')::date AS day, g.run_uid, g.session, g.reason, g.exchange,
           g.sequence, g.sequences, g.merged, g.times, g.superseded_by,
           (SELECT range_agg(int8range(p.sequence, p.sequence, '[]')) FROM parts p
            WHERE p.scope_id = g.scope_id AND p.run_uid = g.run_uid AND p.session = g.session
              AND p.sequence IS NOT NULL AND g.sequences IS NOT NULL) AS stored
    FROM runs r JOIN scopes s ON s.scope_id = r.scope_id
    JOIN gaps g ON g.scope_id = r.scope_id AND g.run_uid = r.run_uid
    WHERE ($1::uuid IS NULL OR r.scope_id = $1) AND r.declared_at >= $2
      AND (r.counts IS NULL OR EXISTS (SELECT 1 FROM gaps l WHERE l.scope_id = r.scope_id AND l.run_uid = r.run_uid
                                       AND l.said_by <> 'count' AND l.last_at > r.counted_at - interval '1 minute'))
), numbers AS (
    SELECT scope, day, run_uid, session, reason, sequences - coalesce(stored, '{}') AS numbers
    FROM there WHERE sequences IS NOT NULL
), whole AS (
    SELECT scope, day, '' AS reason, range_agg(numbers) AS numbers FROM numbers GROUP BY scope, day, run_uid, session
    UNION ALL
    SELECT scope, day, reason, range_agg(numbers) FROM numbers GROUP BY scope, day, run_uid, session, reason
), plain AS (
    SELECT scope, day, reason,
           CASE WHEN exchange IS NULL THEN merged WHEN sequence IS NULL AND superseded_by IS NULL THEN times ELSE 0 END AS times
    FROM there
), counted AS (
    SELECT scope, day, reason, (SELECT coalesce(sum(upper(r) - lower(r)), 0) FROM unnest(numbers) AS r) AS count FROM whole
    UNION ALL SELECT scope, day, reason, times FROM plain
    UNION ALL SELECT scope, day, '', times FROM plain
)
SELECT scope, day, reason, sum(count)::bigint AS count
FROM counted
GROUP BY scope, day, reason
HAVING sum(count) > 0
ORDER BY scope, day, reason
