-- name: announce what sessions of a closing run numbered; of two numbers for one session the larger stays
INSERT INTO sessions AS s (scope_id, run_uid, session, announced)
SELECT $1, $2, a.session, a.announced
FROM unnest($3::text[], $4::bigint[]) AS a (session, announced)
ORDER BY a.session
ON CONFLICT ON CONSTRAINT sessions_pkey
DO UPDATE SET announced = greatest(s.announced, EXCLUDED.announced)

-- name: of_run the sessions that a closing named, with the last number of each
SELECT session, announced
FROM sessions
WHERE scope_id = $1 AND run_uid = $2
ORDER BY session

-- name: stored_numbers what of each session was stored
SELECT p.session, range_agg(int8range(p.sequence, p.sequence, '[]')) AS numbers
FROM parts p
WHERE p.scope_id = $1 AND p.run_uid = $2 AND p.session IS NOT NULL AND p.sequence IS NOT NULL
GROUP BY p.session

-- name: unnumbered_parts how many parts of a run carry no number
SELECT count(*) FROM parts p WHERE p.scope_id = $1 AND p.run_uid = $2 AND p.sequence IS NULL

-- name: gap_numbers what of each session is known to be missing, and who said so
SELECT g.session, g.said_by, range_agg(g.sequences) AS numbers
FROM gaps g
WHERE g.scope_id = $1 AND g.run_uid = $2 AND g.session IS NOT NULL AND g.sequences IS NOT NULL
GROUP BY g.session, g.said_by
