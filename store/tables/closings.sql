-- name: parts_of_run how many parts a run has stored, whatever became of them
SELECT count(*) FROM parts WHERE scope_id = $1 AND run_uid = $2

-- name: names_without_numbers how many observations were lost that have a name and no number, by reason
SELECT reason, sum(times)::bigint AS times
FROM gaps
WHERE scope_id = $1 AND run_uid = $2 AND exchange IS NOT NULL AND sequence IS NULL AND superseded_by IS NULL
GROUP BY reason

-- name: scopes_unclosed scopes with runs that are not closed, from an id on
SELECT DISTINCT scope_id FROM runs WHERE state <> 'closed' AND scope_id > $1 ORDER BY scope_id LIMIT $2

-- name: closing_over whether some closing began `$1` seconds ago or earlier
SELECT EXISTS (SELECT 1 FROM runs WHERE state = 'closing' AND closing_at <= now() - make_interval(secs => $1))

-- name: keep what a close leaf commits to
INSERT INTO closings (scope_id, run_uid, closed_at, opening, record) VALUES ($1, $2, $3, $4, $5)

-- name: last_record what was committed to last
SELECT record FROM closings WHERE scope_id = $1 AND run_uid = $2 ORDER BY closed_at DESC LIMIT 1

-- name: due_again closed runs to which gaps came since they were accounted for: a day after that, or once their retention is over
-- A part that came late had been counted as missing, which is a gap: so it is looked for in runs with gaps only.
SELECT DISTINCT r.scope_id, r.run_uid, r.run
FROM gaps g
JOIN runs r ON r.scope_id = g.scope_id AND r.run_uid = g.run_uid
CROSS JOIN LATERAL (SELECT coalesce(max(c.closed_at), r.closed_at) AS closed_at FROM closings c
                    WHERE c.scope_id = r.scope_id AND c.run_uid = r.run_uid) AS last
WHERE g.last_at > $1 AND (r.scope_id, r.run_uid) > ($2, $3) AND r.state = 'closed'
  AND (g.last_at > last.closed_at OR EXISTS (SELECT 1 FROM parts p WHERE p.scope_id = r.scope_id AND p.run_uid = r.run_uid
                                             AND p.stored_at > last.closed_at))
  AND (last.closed_at <= now() - interval '1 day' OR r.retain_until <= now())
ORDER BY r.scope_id, r.run_uid
LIMIT $4

-- name: accounted_after by key closed runs of which nothing came to be known since their last closing, and whose metadata stays
SELECT r.scope_id, r.run_uid, r.run, r.state, last.record,
       CASE WHEN r.close_opening IS NULL THEN
           (SELECT c.record FROM closings c WHERE c.scope_id = r.scope_id AND c.run_uid = r.run_uid ORDER BY c.closed_at LIMIT 1)
       END AS first
FROM runs r
JOIN scopes s ON s.scope_id = r.scope_id
CROSS JOIN LATERAL (SELECT c.closed_at, c.record FROM closings c WHERE c.scope_id = r.scope_id AND c.run_uid = r.run_uid
                    ORDER BY c.closed_at DESC LIMIT 1) AS last
WHERE (r.scope_id, r.run_uid) > ($1, $2) AND last.closed_at > now() - make_interval(secs => s.metadata_retention_s)
  AND NOT EXISTS (SELECT 1 FROM gaps g WHERE g.scope_id = r.scope_id AND g.run_uid = r.run_uid
                  AND (g.last_at > last.closed_at
                       OR EXISTS (SELECT 1 FROM parts p WHERE p.scope_id = r.scope_id AND p.run_uid = r.run_uid
                                  AND p.stored_at > last.closed_at)))
ORDER BY r.scope_id, r.run_uid
LIMIT $3
