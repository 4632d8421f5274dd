-- What holds ask and do. Placing one takes its locks in the order of everybody who destroys: scope, buckets, run; each in
-- the order of its key. Then no bucket that it covers can expire, and no part of it be marked, before the hold is seen.

-- name: lock_scope_alone keep whoever destroys out of a whole scope
SELECT scope_id FROM scopes WHERE scope_id = $1 FOR UPDATE

-- name: lock_live_buckets every bucket of a scope that has not expired; none of them does until the transaction ends
SELECT bucket_id FROM buckets WHERE scope_id = $1 AND state = 'live' ORDER BY bucket_id FOR SHARE

-- name: buckets_of_run where a run's parts lie and would go, as far as that has not expired
SELECT b.bucket_id
FROM runs r JOIN buckets b ON b.scope_id = r.scope_id
WHERE r.scope_id = $1 AND r.run_uid = $2 AND b.state = 'live'
  AND ((b.span_start <= r.retain_until AND b.span_end > r.retain_until)
       OR EXISTS (SELECT 1 FROM parts p WHERE p.scope_id = $1 AND p.run_uid = $2 AND p.bucket_id = b.bucket_id))

-- name: lock_buckets these buckets do not expire until the transaction ends
SELECT bucket_id FROM buckets WHERE scope_id = $1 AND bucket_id = ANY($2::uuid[]) ORDER BY bucket_id FOR SHARE

-- name: standing_of_part what decides whether a hold still finds a part, read under its locks
SELECT p.state, b.state <> 'live' AS bucket_expired, p.span_start = '9999-01-01 00:00:00+00' AS in_hold_bucket
FROM parts p JOIN buckets b ON b.scope_id = p.scope_id AND b.bucket_id = p.bucket_id
WHERE p.scope_id = $1 AND p.evidence = $2

-- name: standings_of_run the same for all parts of a run, each standing once
SELECT DISTINCT p.state, b.state <> 'live' AS bucket_expired, p.span_start = '9999-01-01 00:00:00+00' AS in_hold_bucket
FROM parts p JOIN buckets b ON b.scope_id = p.scope_id AND b.bucket_id = p.bucket_id
WHERE p.scope_id = $1 AND p.run_uid = $2

-- name: takes_parts whether parts of a run may still be written
SELECT NOT erased AND state <> 'closed' AND retain_until > now() AS takes FROM runs WHERE scope_id = $1 AND run_uid = $2

-- name: insert a hold; from the commit on nothing of what it covers is destroyed
INSERT INTO holds (scope_id, hold_id, reach, run_uid, evidence, reason, answer, placed_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
RETURNING placed_at AS now

-- name: lock one hold, which nobody else releases meanwhile
SELECT reach, run_uid, evidence, released_at, now() AS now FROM holds WHERE scope_id = $1 AND hold_id = $2 FOR UPDATE

-- name: release from now on the grace runs
UPDATE holds SET released_at = now(), released_by = $3 WHERE scope_id = $1 AND hold_id = $2 AND released_at IS NULL

-- name: end holds that were released `$1` seconds ago or earlier keep nothing more
UPDATE holds SET ended_at = now()
WHERE released_at <= now() - make_interval(secs => $1) AND ended_at IS NULL
RETURNING hold_id

-- name: end_due whether there are such
SELECT EXISTS (SELECT 1 FROM holds WHERE released_at <= now() - make_interval(secs => $1) AND ended_at IS NULL)

-- name: covering the live holds that cover a run or parts of it
SELECT h.reach, CASE h.reach WHEN 'run' THEN h.run_uid WHEN 'part' THEN h.evidence END AS target
FROM holds h
WHERE h.scope_id = $1 AND h.ended_at IS NULL
  AND (h.reach = 'scope' OR (h.run_uid = $2 AND (h.reach = 'run' OR h.evidence = ANY($3::uuid[]))))

-- name: by_id one hold; its run may be forgotten
SELECT h.hold_id, h.reach, h.run_uid, r.run, h.evidence, h.reason, h.answer, h.placed_by, h.placed_at, h.released_by,
       h.released_at, h.ended_at
FROM holds h LEFT JOIN runs r ON r.scope_id = h.scope_id AND r.run_uid = h.run_uid
WHERE h.scope_id = $1 AND h.hold_id = $2

-- name: latest the newest holds of one scope, before an id; ids are in the order of time
SELECT h.hold_id, h.reach, h.run_uid, r.run, h.evidence, h.reason, h.answer, h.placed_by, h.placed_at, h.released_by,
       h.released_at, h.ended_at
FROM holds h LEFT JOIN runs r ON r.scope_id = h.scope_id AND r.run_uid = h.run_uid
WHERE h.scope_id = $1 AND ($2::uuid IS NULL OR h.hold_id < $2)
ORDER BY h.hold_id DESC
LIMIT $3

-- name: live_counts how many holds keep something, by scope
SELECT s.name AS scope, count(*) AS holds
FROM holds h JOIN scopes s ON s.scope_id = h.scope_id
WHERE h.ended_at IS NULL
GROUP BY s.name
ORDER BY s.name

-- name: forget_reasons the words of holds that ended longer ago than their scope keeps metadata
UPDATE holds h SET reason = NULL
FROM scopes s
WHERE s.scope_id = h.scope_id AND h.reason IS NOT NULL
  AND h.ended_at <= now() - make_interval(secs => s.metadata_retention_s)
RETURNING h.hold_id
