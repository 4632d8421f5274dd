-- name: of_target the erasure that was asked for the same before; the run is locked
SELECT e.erasure_id, e.target_kind, e.run_uid, r.run, e.evidence, e.state, e.requested_at, e.purged_at
FROM erasures e JOIN runs r ON r.scope_id = e.scope_id AND r.run_uid = e.run_uid
WHERE e.scope_id = $1 AND e.run_uid = $2 AND e.evidence IS NOT DISTINCT FROM $3
ORDER BY e.requested_at
LIMIT 1

-- name: insert what was asked for; from the commit on reads refuse it
INSERT INTO erasures (scope_id, erasure_id, target_kind, run_uid, evidence, state, requested_by)
VALUES ($1, $2, $3, $4, $5, $6, $7)

-- name: by_id one erasure
SELECT e.erasure_id, e.target_kind, e.run_uid, r.run, e.evidence, e.state, e.requested_at, e.purged_at
FROM erasures e JOIN runs r ON r.scope_id = e.scope_id AND r.run_uid = e.run_uid
WHERE e.scope_id = $1 AND e.erasure_id = $2

-- name: latest the newest erasures of one scope, before an id; ids are in the order of time
SELECT e.erasure_id, e.target_kind, e.run_uid, r.run, e.evidence, e.state, e.requested_at, e.purged_at
FROM erasures e JOIN runs r ON r.scope_id = e.scope_id AND r.run_uid = e.run_uid
WHERE e.scope_id = $1 AND ($2::uuid IS NULL OR e.erasure_id < $2)
ORDER BY e.erasure_id DESC
LIMIT $3

-- name: begin what was accepted is worked on now
UPDATE erasures SET state = 'purging' WHERE state = 'accepted'

-- name: open how long ago those erasures were asked for that are worked on
SELECT scope_id, erasure_id, extract(epoch FROM now() - requested_at)::float8 AS age_s
FROM erasures
WHERE state = 'purging'
ORDER BY scope_id, requested_at

-- name: set_purged answered as purged from now on, if no part of it is left
UPDATE erasures e SET state = 'purged', purged_at = now()
WHERE e.scope_id = $1 AND e.erasure_id = $2 AND e.state = 'purging'
  AND NOT EXISTS (SELECT 1 FROM parts p
                  WHERE p.scope_id = e.scope_id AND p.run_uid = e.run_uid AND p.state <> 'purged'
                    AND (e.target_kind = 'run' OR p.evidence = e.evidence))
