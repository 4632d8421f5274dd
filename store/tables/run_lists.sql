-- name: listed_newest a scope's runs before ($2, $3) and not declared before $4, with what they may be narrowed by; index runs_by_declared
SELECT r.run_uid, r.run, r.state, r.erased, r.mode, r.content, r.sampled, r.labels, r.declared_at, r.closed_at, r.never_closed,
       r.retain_until <= now() AS expired, now() AS opened_at, clock_timestamp() AS read_at,
       CASE WHEN $6::boolean THEN EXISTS (SELECT 1 FROM parts p WHERE p.scope_id = r.scope_id AND p.run_uid = r.run_uid) END AS stored,
       CASE WHEN $6::boolean THEN ARRAY(
           SELECT DISTINCT g.reason FROM gaps g WHERE g.scope_id = r.scope_id AND g.run_uid = r.run_uid AND g.superseded_by IS NULL)
       END AS reasons
FROM runs r
WHERE r.scope_id = $1 AND (r.declared_at, r.run_uid) < ($2, $3) AND r.declared_at >= $4
ORDER BY r.declared_at DESC, r.run_uid DESC
LIMIT $5

-- name: listed_oldest a scope's runs after ($2, $3) and declared before $4, with what they may be narrowed by; index runs_by_declared
SELECT r.run_uid, r.run, r.state, r.erased, r.mode, r.content, r.sampled, r.labels, r.declared_at, r.closed_at, r.never_closed,
       r.retain_until <= now() AS expired, now() AS opened_at, clock_timestamp() AS read_at,
       CASE WHEN $6::boolean THEN EXISTS (SELECT 1 FROM parts p WHERE p.scope_id = r.scope_id AND p.run_uid = r.run_uid) END AS stored,
       CASE WHEN $6::boolean THEN ARRAY(
           SELECT DISTINCT g.reason FROM gaps g WHERE g.scope_id = r.scope_id AND g.run_uid = r.run_uid AND g.superseded_by IS NULL)
       END AS reasons
FROM runs r
WHERE r.scope_id = $1 AND (r.declared_at, r.run_uid) > ($2, $3) AND r.declared_at < $4
ORDER BY r.declared_at, r.run_uid
LIMIT $5

-- name: counted what is there and missing of some runs, as counted when they ended and no more was told since, else counted now
SELECT r.run_uid,
       CASE WHEN r.counts IS NULL
                 OR EXISTS (SELECT 1 FROM gaps g WHERE g.scope_id = r.scope_id AND g.run_uid = r.run_uid
                            AND g.said_by <> 'count' AND g.last_at > r.counted_at - interval '1 minute')
            THEN count_run(r.scope_id, r.run_uid) ELSE r.counts END AS counts
FROM runs r
WHERE r.scope_id = $1 AND r.run_uid = ANY($2::uuid[])

-- name: beginning_with the first runs whose ids begin with a text: from it up to all that goes on after it; index runs_once
SELECT run FROM runs WHERE scope_id = $1 AND run >= $2 AND run < $2 || '~' ORDER BY run LIMIT $3
