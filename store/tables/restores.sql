-- What a restore asks and does: the log beyond a backup, from its mirror, and what its leaves say done again.

-- name: try_alone whether no other restore is under way; taken until the connection is given back by `let_go`
SELECT pg_try_advisory_lock(hashtextextended('custody/restore', 0))

-- name: let_go let another restore begin
SELECT pg_advisory_unlock(hashtextextended('custody/restore', 0))

-- name: under_way the restore that has not ended
SELECT restore_id, from_index, to_index, replayed_to, queued_until, lost, purged, expired, held, closed, unknown, begun_at,
    renewed_at, said_at, ended_at
FROM restores WHERE ended_at IS NULL

-- name: last the restore that ended last
SELECT restore_id, from_index, to_index, replayed_to, queued_until, lost, purged, expired, held, closed, unknown, begun_at,
    renewed_at, said_at, ended_at
FROM restores WHERE ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT 1

-- name: begin a restore; what waits in the queue now may have its place in the log
INSERT INTO restores (restore_id, from_index, to_index, replayed_to, queued_until, begun_by)
VALUES ($1, $2, $3, $2, coalesce((SELECT max(id) FROM log_queue), 0), $4)

-- name: close close reads and stop the log; a forked one stays so
UPDATE log_state SET stop = 'restoring', stopped_at = now() WHERE stop IS DISTINCT FROM 'forked' RETURNING one

-- name: fork the log was not rolled back: it took another way
UPDATE log_state SET stop = 'forked', stopped_at = now() WHERE stop IS DISTINCT FROM 'forked'

-- name: reach the mirror has more by now than when the restore began
UPDATE restores SET to_index = $1 WHERE ended_at IS NULL AND to_index < $1

-- name: renewed nothing is left of what the queue knew of runs
UPDATE restores SET renewed_at = now() WHERE ended_at IS NULL

-- name: replayed how far leaves were replayed, and what that changed
UPDATE restores
SET replayed_to = $1, lost = lost + $2, purged = purged + $3, expired = expired + $4, held = held + $5, closed = closed + $6,
    unknown = unknown + $7
WHERE ended_at IS NULL

-- name: said the log says that it was restored
UPDATE restores SET said_at = now() WHERE ended_at IS NULL AND said_at IS NULL RETURNING from_index, to_index

-- name: ended the restore is done
UPDATE restores SET ended_at = now() WHERE ended_at IS NULL

-- name: open open reads and let the log go on
UPDATE log_state SET stop = NULL, stopped_at = NULL, compared_at = now(), compared_on = this_database()
WHERE stop = 'restoring'
RETURNING one

-- name: published up to where the log is published, after its leaves came back
UPDATE log_state SET published_size = greatest(published_size, $1)

-- name: placed_already take leaves off the queue that have their place in the log, each as often as it has
DELETE FROM log_queue q
USING (
    SELECT w.id
    FROM (SELECT id, leaf, row_number() OVER (PARTITION BY leaf ORDER BY id) AS nth FROM log_queue WHERE id <= $1) AS w
    JOIN (SELECT leaf, row_number() OVER (PARTITION BY leaf) AS nth FROM unnest($2::bytea[]) AS e (leaf)) AS e
        ON e.leaf = w.leaf AND e.nth = w.nth
) AS placed
WHERE q.id = placed.id
RETURNING q.id

-- name: outdate_tickets tickets of before expire, also those of policies that the backup does not know: everybody declares again
UPDATE scopes SET policy_version = policy_version + $1

-- Whose leaves are ---------------------------------------------------------------------------------------------------

-- name: bucket_scopes the scope of every bucket
SELECT bucket_id, scope_id FROM buckets

-- name: part_scopes the scopes of parts, by their leaves
SELECT DISTINCT subject, scope_id FROM log_entries WHERE subject = ANY($1::uuid[]) AND kind = 'part'

-- name: run_scopes the scopes of runs
SELECT r.run_uid, r.scope_id FROM scopes s JOIN runs r ON r.scope_id = s.scope_id AND r.run_uid = ANY($1::uuid[])

-- name: source_scopes the scopes of sources
SELECT source_uid, scope_id FROM sources WHERE source_uid = ANY($1::uuid[])

-- name: scopes_known these that are scopes
SELECT scope_id FROM scopes WHERE scope_id = ANY($1::uuid[])

-- What leaves say ----------------------------------------------------------------------------------------------------

-- name: lose parts of which there is no row, or one that was written after the backup and is committed to by another leaf
INSERT INTO lost_evidence AS l (scope_id, evidence, bucket_id, idx, leaves)
SELECT w.scope_id, w.evidence, (array_agg(w.bucket_id ORDER BY w.idx))[1], max(w.idx), count(*)
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bytea[], $5::bigint[]) AS w (scope_id, evidence, bucket_id, commitment, idx)
WHERE NOT EXISTS (SELECT 1 FROM parts p
                  WHERE p.scope_id = w.scope_id AND p.evidence = w.evidence AND p.commitment = w.commitment)
GROUP BY w.scope_id, w.evidence
ON CONFLICT ON CONSTRAINT lost_evidence_pkey DO UPDATE
    SET idx = excluded.idx, leaves = l.leaves + excluded.leaves
    WHERE l.idx IS NULL OR excluded.idx > l.idx
RETURNING l.evidence

-- name: purge_lost a part without a row was purged
UPDATE lost_evidence SET purge_reason = $3 WHERE scope_id = $1 AND evidence = $2 AND purge_reason IS NULL RETURNING evidence

-- name: keys_of the keys that wrap secrets of a bucket, or did
SELECT unnest(array_remove(ARRAY[bucket_id, key_id, old_key_id], NULL)) AS key_id
FROM buckets
WHERE scope_id = $1 AND bucket_id = $2

-- name: expire a bucket expired; waits for whoever writes into it
UPDATE buckets SET state = 'expired', expired_at = to_timestamp($3::bigint)
WHERE scope_id = $1 AND bucket_id = $2 AND state = 'live' AND span_start IS NOT NULL
RETURNING bucket_id

-- name: unqueue_expiry the leaf of a bucket's expiry, of which there is one, does not wait any more; by how such leaves begin
DELETE FROM log_queue WHERE substring(leaf FOR length($1::bytea)) = $1

-- name: place a hold as its leaf tells it, without the words that it was placed with
INSERT INTO holds (scope_id, hold_id, reach, run_uid, evidence, answer, placed_by, placed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, to_timestamp($8::bigint))
ON CONFLICT ON CONSTRAINT holds_pkey DO NOTHING
RETURNING hold_id

-- name: release a hold as its leaf tells it
UPDATE holds SET released_at = greatest(placed_at, to_timestamp($3::bigint)), released_by = $4
WHERE scope_id = $1 AND hold_id = $2 AND released_at IS NULL
RETURNING hold_id

-- name: set_revoked a whole source was closed or opened again
UPDATE sources SET revoked_at = CASE WHEN $3 THEN to_timestamp($4::bigint) END
WHERE scope_id = $1 AND source_uid = $2 AND (revoked_at IS NOT NULL) IS DISTINCT FROM $3 AND NOT destroyed
  AND (erased_at IS NULL OR $3)
RETURNING source

-- name: set_withdrawn one version of a source was closed or opened again
UPDATE source_versions v SET withdrawn_at = CASE WHEN $4 THEN to_timestamp($5::bigint) END
FROM sources s
WHERE s.scope_id = $1 AND s.source_uid = $2 AND v.scope_id = s.scope_id AND v.source = s.source AND v.version = $3
  AND (v.withdrawn_at IS NOT NULL) IS DISTINCT FROM $4 AND NOT v.destroyed
RETURNING v.source

-- name: version_known whether a source has a version
SELECT EXISTS (
    SELECT 1 FROM sources s JOIN source_versions v ON v.scope_id = s.scope_id AND v.source = s.source
    WHERE s.scope_id = $1 AND s.source_uid = $2 AND v.version = $3)

-- name: end_run a run was closed; its account is made anew, of what is there
UPDATE runs SET state = 'closing', closing_at = to_timestamp($3::bigint)
WHERE scope_id = $1 AND run_uid = $2 AND state = 'open'
RETURNING run_uid

-- name: all_scopes every scope
SELECT scope_id FROM scopes ORDER BY scope_id

-- name: parts_from parts of one scope by id
SELECT evidence FROM parts WHERE scope_id = $1 AND evidence > $2 ORDER BY evidence LIMIT $3

-- name: torn parts of one scope between two ids whose body should be there and is not
UPDATE parts p SET state = 'lost_in_restore'
FROM buckets b
WHERE p.scope_id = $1 AND p.evidence > $2 AND p.evidence <= $3 AND p.state = 'stored'
  AND b.scope_id = p.scope_id AND b.bucket_id = p.bucket_id
  AND (b.state = 'live' OR p.span_start = '9999-01-01 00:00:00+00')
  AND NOT EXISTS (SELECT 1 FROM bodies y
                  WHERE y.span_start = p.span_start AND y.scope_id = p.scope_id AND y.evidence = p.evidence)
RETURNING p.evidence

-- name: expired_undropped how many buckets expired and are not destroyed
SELECT count(*) FROM buckets WHERE state = 'expired' AND span_start IS NOT NULL

-- What was lost ------------------------------------------------------------------------------------------------------

-- name: lost what became of one part without a row; nothing for what never was, and for another scope's
SELECT l.purge_reason, coalesce(b.state <> 'live' OR b.span_end <= now(), false) AS expired
FROM lost_evidence l LEFT JOIN buckets b ON b.scope_id = l.scope_id AND b.bucket_id = l.bucket_id
WHERE l.scope_id = $1 AND l.evidence = $2

-- name: lost_among which of some parts were lost, up to which leaf, and what purged them
SELECT l.scope_id, l.evidence, l.idx, l.purge_reason
FROM unnest($1::uuid[], $2::uuid[]) AS w (scope_id, evidence)
JOIN lost_evidence l ON l.scope_id = w.scope_id AND l.evidence = w.evidence
