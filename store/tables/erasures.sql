-- name: of_target the erasure that was last asked for the same before; whole sources and subjects only until that is done
SELECT e.erasure_id, e.target_kind, e.run_uid, r.run, e.evidence, e.source, e.state, e.waits_for, e.requested_at, e.purged_at
FROM erasures e LEFT JOIN runs r ON r.scope_id = e.scope_id AND r.run_uid = e.run_uid
WHERE e.scope_id = $1 AND e.target_kind = $2 AND e.run_uid IS NOT DISTINCT FROM $3 AND e.evidence IS NOT DISTINCT FROM $4
  AND e.source IS NOT DISTINCT FROM $5 AND e.subject IS NOT DISTINCT FROM $6
  AND (e.target_kind IN ('part', 'run') OR e.state <> 'purged')
ORDER BY e.requested_at DESC
LIMIT 1

-- name: insert what was asked for; from the commit on reads refuse it
INSERT INTO erasures (scope_id, erasure_id, target_kind, run_uid, evidence, source, subject, state, waits_for, requested_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
RETURNING requested_at

-- name: by_id one erasure; its run may be forgotten
SELECT e.erasure_id, e.target_kind, e.run_uid, r.run, e.evidence, e.source, e.state, e.waits_for, e.requested_at, e.purged_at
FROM erasures e LEFT JOIN runs r ON r.scope_id = e.scope_id AND r.run_uid = e.run_uid
WHERE e.scope_id = $1 AND e.erasure_id = $2

-- name: latest the newest erasures of one scope, before an id; ids are in the order of time
SELECT e.erasure_id, e.target_kind, e.run_uid, r.run, e.evidence, e.source, e.state, e.waits_for, e.requested_at, e.purged_at
FROM erasures e LEFT JOIN runs r ON r.scope_id = e.scope_id AND r.run_uid = e.run_uid
WHERE e.scope_id = $1 AND ($2::uuid IS NULL OR e.erasure_id < $2)
ORDER BY e.erasure_id DESC
LIMIT $3

-- name: begin what was accepted is worked on now
UPDATE erasures SET state = 'purging' WHERE state = 'accepted'

-- name: uncleared how long ago those erasures were asked for of which the queue may still hold something
SELECT e.scope_id, e.erasure_id, r.run, extract(epoch FROM now() - e.requested_at)::float8 AS age_s
FROM erasures e LEFT JOIN runs r ON r.scope_id = e.scope_id AND r.run_uid = e.run_uid
WHERE e.state IN ('purging', 'deferred') AND e.cleared_at IS NULL
ORDER BY e.scope_id, e.requested_at

-- name: set_cleared neither the queue nor its file holds anything of it
UPDATE erasures SET cleared_at = now() WHERE scope_id = $1 AND erasure_id = $2 AND cleared_at IS NULL

-- name: settle how far each erasure is, and what it waits for; purged once nothing of it is left to be purged
UPDATE erasures e SET state = f.state, waits_for = f.waits_for, purged_at = CASE f.state WHEN 'purged' THEN now() END
FROM (
    SELECT x.scope_id, x.erasure_id,
           CASE WHEN x.held THEN 'deferred' WHEN x.cleared AND NOT x.remains THEN 'purged' ELSE 'purging' END AS state,
           CASE WHEN x.held THEN 'hold' WHEN NOT x.cleared THEN 'queue' WHEN x.remains AND NOT x.at_work THEN 'publication'
           END AS waits_for
    FROM (
        SELECT e.scope_id, e.erasure_id, e.cleared_at IS NOT NULL AS cleared,
               EXISTS (SELECT 1 FROM erasure_parts(e) AS p
                       WHERE p.state IN ('stored', 'lost_in_restore') AND is_held(p.scope_id, p.run_uid, p.evidence)) OR l.facts_held AS held,
               EXISTS (SELECT 1 FROM erasure_parts(e) AS p) OR l.labelled OR l.facts AS remains,
               EXISTS (SELECT 1 FROM erasure_parts(e) AS p
                       WHERE p.state <> 'purging' OR p.purged_at IS NULL) OR l.labelled OR l.facts AS at_work
        FROM erasures e
        CROSS JOIN LATERAL (
            SELECT e.target_kind = 'subject' AND EXISTS (
                SELECT 1 FROM runs r
                WHERE r.scope_id = e.scope_id AND r.subject = e.subject AND r.erased AND r.labels <> '{}') AS labelled,
                EXISTS (SELECT 1 FROM erasure_facts(e) AS f) AS facts,
                EXISTS (SELECT 1 FROM erasure_facts(e) AS f WHERE is_held(f.scope_id, f.run_uid, NULL)) AS facts_held
        ) AS l
        WHERE e.state IN ('purging', 'deferred')
    ) AS x
) AS f
WHERE e.scope_id = f.scope_id AND e.erasure_id = f.erasure_id
  AND (e.state, e.waits_for) IS DISTINCT FROM (f.state, f.waits_for)
