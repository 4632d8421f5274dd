-- Facts of toolchains. Whoever writes or ends those of a run has the run's row before, then its row in `fact_runs`.

-- name: take_runs one writer at a time has the facts of a run, in the order of their keys; how many it has
INSERT INTO fact_runs (scope_id, run_uid, ends_at)
SELECT w.scope_id, w.run_uid, w.ends_at
FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) AS w (scope_id, run_uid, ends_at)
ORDER BY w.scope_id, w.run_uid
ON CONFLICT ON CONSTRAINT fact_runs_pkey DO UPDATE SET kept = fact_runs.kept
RETURNING scope_id, run_uid, kept

-- name: known which of these are there already
SELECT w.place
FROM unnest($1::uuid[], $2::uuid[], $3::text[]) WITH ORDINALITY AS w (scope_id, run_uid, fact, place)
JOIN facts f ON f.scope_id = w.scope_id AND f.run_uid = w.run_uid AND f.fact = w.fact

-- name: count add what was written, say which runs are full, and when they were told of last
UPDATE fact_runs f SET kept = f.kept + w.more, is_full = f.is_full OR w.is_full, told_at = now()
FROM unnest($1::uuid[], $2::uuid[], $3::integer[], $4::boolean[]) AS w (scope_id, run_uid, more, is_full)
WHERE f.scope_id = w.scope_id AND f.run_uid = w.run_uid

-- name: standing one run as far as its facts are concerned, at the statement's own instant
SELECT r.run_uid, r.retain_until, r.erased, r.retain_until <= now() AND is_held(r.scope_id, r.run_uid, NULL) AS held,
       coalesce(f.is_full, false) AS is_full, now() AS opened_at
FROM runs r LEFT JOIN fact_runs f ON f.scope_id = r.scope_id AND f.run_uid = r.run_uid
WHERE r.scope_id = $1 AND r.run = $2

-- name: actions a run's actions in the order in which they were first told of, after one fact; index facts_by_action
SELECT a.action, a.fact_uid
FROM (
    SELECT DISTINCT ON (f.action) f.action, f.fact_uid
    FROM facts f
    WHERE f.scope_id = $1 AND f.run_uid = $2 AND f.action IS NOT NULL
    ORDER BY f.action, f.fact_uid
) AS a
WHERE a.fact_uid > $3
ORDER BY a.fact_uid
LIMIT $4

-- name: of_actions what was told of some actions, in the order told; index facts_by_action
SELECT f.fact_uid, f.body
FROM facts f
WHERE f.scope_id = $1 AND f.run_uid = $2 AND f.action = ANY($3::text[])
ORDER BY f.fact_uid

-- name: unbound what stood in a run's requests and is bound to no action, in the order told; index facts_by_type
SELECT f.fact_uid, f.body
FROM facts f
WHERE f.scope_id = $1 AND f.run_uid = $2 AND f.type = 'occurrence' AND f.action IS NULL
ORDER BY f.fact_uid

-- name: of_type facts of one type in the order told, after one; of one action or exchange, if so asked; index facts_by_type
SELECT f.fact_uid, f.body
FROM facts f
WHERE f.scope_id = $1 AND f.run_uid = $2 AND f.type = $3 AND f.fact_uid > $4
  AND ($5::text IS NULL OR f.action = $5) AND ($6::text IS NULL OR f.exchange = $6)
ORDER BY f.fact_uid
LIMIT $7

-- name: counts how many facts a run, or one action, has of the types that have lists, and of how many actions; index facts_by_type
SELECT count(*) AS facts, count(DISTINCT f.action) AS actions,
       count(*) FILTER (WHERE f.type = 'surface') AS surface, count(*) FILTER (WHERE f.type = 'coverage') AS coverage,
       count(*) FILTER (WHERE f.type = 'delivery') AS delivery
FROM facts f
WHERE f.scope_id = $1 AND f.run_uid = $2 AND ($3::text IS NULL OR f.action = $3)

-- name: met which of these attempts anything was told of, stored or missed; without a name, any of the exchange: no id is below '' or above '~'; indexes attempts_pkey, parts_identity_once, gaps_named_once
SELECT w.exchange, w.attempt
FROM unnest($3::text[], $4::text[]) AS w (exchange, attempt)
WHERE EXISTS (
        SELECT FROM attempts a
        WHERE a.scope_id = $1 AND a.run_uid = $2 AND a.exchange = w.exchange
          AND a.attempt BETWEEN coalesce(w.attempt, '') AND coalesce(w.attempt, '~'))
   OR EXISTS (
        SELECT FROM parts p
        WHERE p.scope_id = $1 AND p.run_uid = $2 AND p.exchange = w.exchange
          AND p.attempt BETWEEN coalesce(w.attempt, '') AND coalesce(w.attempt, '~'))
   OR EXISTS (
        SELECT FROM gaps g
        WHERE g.scope_id = $1 AND g.run_uid = $2 AND g.exchange = w.exchange
          AND g.attempt BETWEEN coalesce(w.attempt, '') AND coalesce(w.attempt, '~'))

-- name: over runs of a scope whose facts are over by an instant, and that nothing holds, after one, those first that ended first; index
-- fact_runs_by_end; a scope that is held as a whole has none, and may have very many to be asked about: that is asked first, and each run's
-- own holds are looked up (OFFSET 0), whatever the planner thinks
WITH free AS MATERIALIZED (
    SELECT s.scope_id
    FROM scopes s
    WHERE s.scope_id = $1
      AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.scope_id = s.scope_id AND h.ended_at IS NULL AND h.reach = 'scope'))
SELECT f.ends_at, f.run_uid
FROM free s
CROSS JOIN LATERAL (
    SELECT f.ends_at, f.run_uid
    FROM fact_runs f
    WHERE f.scope_id = s.scope_id AND f.ends_at <= $2 AND (f.ends_at, f.run_uid) > ($3, $4)
      AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.scope_id = f.scope_id AND h.run_uid = f.run_uid AND h.ended_at IS NULL
                      AND h.reach = 'run' OFFSET 0)
    ORDER BY f.ends_at, f.run_uid
    LIMIT $5
) AS f
ORDER BY f.ends_at, f.run_uid

-- name: end the facts of a locked run; null where they stay
SELECT end_facts($1, $2)
