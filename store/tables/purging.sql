-- What destroying single parts asks and does. Locks are taken in this order: source, scope, buckets, run; each in the
-- order of its key, and with one scope a statement, since a locking read may not span several.

-- name: lock_scope nobody places a hold on the scope until the transaction ends
SELECT scope_id FROM scopes WHERE scope_id = $1 FOR SHARE

-- name: lock_buckets these buckets do not expire until the transaction ends
SELECT bucket_id FROM buckets WHERE scope_id = $1 AND bucket_id = ANY($2::uuid[]) ORDER BY bucket_id FOR SHARE

-- name: lock_run wait for every writer of the run and keep others out
SELECT run, erased FROM runs WHERE scope_id = $1 AND run_uid = $2 FOR UPDATE

-- name: take_run as lock_run, but leave a run alone that somebody else has
SELECT run, erased FROM runs WHERE scope_id = $1 AND run_uid = $2 FOR UPDATE SKIP LOCKED

-- name: run_named one run, by the caller's text
SELECT run_uid, erased FROM runs WHERE scope_id = $1 AND run = $2

-- name: set_run_erased one way
UPDATE runs SET erased = true, narrowed_at = now() WHERE scope_id = $1 AND run_uid = $2 AND NOT erased

-- name: part_of one part: what T1 needs to know of it
SELECT scope_id, run_uid, evidence, bucket_id FROM parts WHERE scope_id = $1 AND evidence = $2

-- name: part_named one part, by its identity
SELECT scope_id, run_uid, evidence, bucket_id
FROM parts
WHERE scope_id = $1 AND run_uid = $2 AND exchange = $3 AND attempt = $4 AND kind = $5

-- name: scopes_due scopes in which something may be to be destroyed, by the clock up to `$1` or whenever, by their ids; of parts the
-- first of an index is asked for, or a planner reads all that are held to know of which scopes they are
SELECT s.scope_id
FROM scopes s
WHERE EXISTS (SELECT 1 FROM erasures e WHERE e.scope_id = s.scope_id AND e.state <> 'purged')
   OR (SELECT true FROM parts p WHERE p.scope_id = s.scope_id AND p.state = 'purging' ORDER BY p.purging_at LIMIT 1)
   OR (SELECT true FROM parts p WHERE p.scope_id = s.scope_id AND p.span_start = '9999-01-01 00:00:00+00'
       ORDER BY p.bucket_id LIMIT 1)
   OR EXISTS (SELECT 1 FROM sources c WHERE c.scope_id = s.scope_id AND c.revoked_at IS NOT NULL AND NOT c.destroyed)
   OR EXISTS (SELECT 1 FROM source_versions v WHERE v.scope_id = s.scope_id AND v.withdrawn_at IS NOT NULL AND NOT v.destroyed)
   OR EXISTS (SELECT 1 FROM runs r WHERE r.scope_id = s.scope_id AND r.destroy_from <= $1)
   OR (SELECT true FROM fact_runs f WHERE f.scope_id = s.scope_id AND f.ends_at <= $1 ORDER BY f.ends_at LIMIT 1)
ORDER BY s.scope_id

-- name: of_erasures parts of a scope whose erasure was asked for and which nothing holds, those first that were asked for first
SELECT p.scope_id, p.run_uid, p.evidence, q.bucket_id
FROM erasures e
CROSS JOIN LATERAL (
    SELECT p.scope_id, p.run_uid, p.evidence
    FROM erasure_parts(e) AS p
    WHERE p.state IN ('stored', 'lost_in_restore') AND NOT is_held(p.scope_id, p.run_uid, p.evidence)
    LIMIT $2
) AS p
JOIN parts q ON q.scope_id = p.scope_id AND q.evidence = p.evidence
WHERE e.scope_id = $1 AND e.state <> 'purged'
ORDER BY e.requested_at
LIMIT $2

-- name: close parts of one locked run whose erasure a hold defers: from the commit on they are refused
UPDATE parts SET purge_reason = 'erased'
WHERE scope_id = $1 AND run_uid = $2 AND evidence = ANY($3::uuid[]) AND state IN ('stored', 'lost_in_restore')
  AND purge_reason IS NULL

-- name: of_shortened_runs parts of a scope in a bucket that expires a whole span or more after their run, which was shortened since
SELECT r.scope_id, r.run_uid, p.evidence, p.bucket_id
FROM runs r
CROSS JOIN LATERAL (
    SELECT p.evidence, p.bucket_id
    FROM parts p JOIN buckets b ON b.scope_id = p.scope_id AND b.bucket_id = p.bucket_id
    WHERE p.scope_id = r.scope_id AND p.run_uid = r.run_uid AND p.state = 'stored'
      AND b.state = 'live' AND b.span_start > r.retain_until AND NOT is_held(p.scope_id, p.run_uid, p.evidence)
    LIMIT $2
) AS p
WHERE r.scope_id = $1 AND r.destroy_from <= $3
ORDER BY r.destroy_from, r.run_uid
LIMIT $2

-- name: shortened_done held ones included: runs of which no such part is left, nor can come: their last writer is done long ago
UPDATE runs r SET destroy_from = NULL
WHERE r.destroy_from <= now() - make_interval(secs => $1)
  AND NOT EXISTS (
      SELECT 1 FROM parts p JOIN buckets b ON b.scope_id = p.scope_id AND b.bucket_id = p.bucket_id
      WHERE p.scope_id = r.scope_id AND p.run_uid = r.run_uid AND p.state = 'stored'
        AND b.state = 'live' AND b.span_start > r.retain_until)

-- name: revoked_sources whole sources of a scope that are closed, with its policy
SELECT s.scope_id, s.source, NULL::integer AS version, s.revoked_at AS closed_at, c.policy::text AS policy, now() AS now
FROM sources s JOIN scopes c ON c.scope_id = s.scope_id
WHERE s.scope_id = $1 AND s.revoked_at IS NOT NULL AND NOT s.destroyed
ORDER BY s.source

-- name: withdrawn_versions versions of sources of a scope that are closed, with its policy
SELECT v.scope_id, v.source, v.version, v.withdrawn_at AS closed_at, c.policy::text AS policy, now() AS now
FROM source_versions v JOIN scopes c ON c.scope_id = v.scope_id
WHERE v.scope_id = $1 AND v.withdrawn_at IS NOT NULL AND NOT v.destroyed
ORDER BY v.source, v.version

-- name: of_source parts that depend on a source, on any of its versions or none, and have not gone with their bucket; $4 also held ones
SELECT p.scope_id, p.run_uid, p.evidence, p.bucket_id
FROM source_sets t JOIN buckets b ON b.scope_id = t.scope_id
JOIN parts p ON p.scope_id = t.scope_id AND p.source_set = t.set_id AND p.bucket_id = b.bucket_id
WHERE t.scope_id = $1 AND t.sources @> ARRAY[$2::text] AND b.state = 'live' AND p.state = 'stored' AND p.source_set IS NOT NULL
  AND ($4 OR NOT is_held(p.scope_id, p.run_uid, p.evidence))
LIMIT $3

-- name: of_version the same for parts that are bound to one version of a source; $5 also held ones
SELECT p.scope_id, p.run_uid, p.evidence, p.bucket_id
FROM source_sets t JOIN buckets b ON b.scope_id = t.scope_id
JOIN parts p ON p.scope_id = t.scope_id AND p.source_set = t.set_id AND p.bucket_id = b.bucket_id
WHERE t.scope_id = $1 AND t.sources @> ARRAY[$2::text] AND b.state = 'live' AND p.state = 'stored' AND p.source_set IS NOT NULL
  AND EXISTS (SELECT 1 FROM unnest(t.sources, t.versions) AS s (source, version)
              WHERE s.source = $2 AND s.version = $3)
  AND ($5 OR NOT is_held(p.scope_id, p.run_uid, p.evidence))
LIMIT $4

-- name: still_revoked the source is closed since then, and stays so until the transaction ends
SELECT 1 FROM sources WHERE scope_id = $1 AND source = $2 AND revoked_at = $3 FOR SHARE

-- name: still_withdrawn the version is closed since then, and stays so until the transaction ends
SELECT 1 FROM source_versions WHERE scope_id = $1 AND source = $2 AND version = $3 AND withdrawn_at = $4 FOR SHARE

-- name: source_destroyed nothing that depends on the source is left
UPDATE sources SET destroyed = true WHERE scope_id = $1 AND source = $2 AND revoked_at = $3

-- name: version_destroyed nothing that is bound to the version is left
UPDATE source_versions SET destroyed = true
WHERE scope_id = $1 AND source = $2 AND version = $3 AND withdrawn_at = $4

-- name: mark T1 of parts of one run: from the commit on they are refused
UPDATE parts SET state = 'purging', purge_reason = $4, purging_at = now()
WHERE scope_id = $1 AND run_uid = $2 AND evidence = ANY($3::uuid[]) AND state IN ('stored', 'lost_in_restore')
RETURNING evidence, exchange, attempt, kind, now() AS now

-- name: with_bodies parts on their way out whose body is still there; another purger's are left alone
SELECT p.evidence, p.span_start
FROM parts p
WHERE p.scope_id = $1 AND p.state = 'purging' AND p.purged_at IS NULL
  AND EXISTS (SELECT 1 FROM bodies b
              WHERE b.span_start = p.span_start AND b.scope_id = p.scope_id AND b.evidence = p.evidence)
ORDER BY p.purging_at
LIMIT $2
FOR UPDATE OF p SKIP LOCKED

-- name: delete_bodies T2 of parts of one span: wrapped secret, size and ciphertext
DELETE FROM bodies WHERE span_start = $1 AND scope_id = $2 AND evidence = ANY($3::uuid[]) RETURNING bucket_id

-- name: without_bodies parts on their way out whose body is gone, by how long ago they were marked
SELECT p.evidence, r.run, p.span_start, p.purge_reason, extract(epoch FROM now() - p.purging_at)::float8 AS age_s
FROM parts p JOIN runs r ON r.scope_id = p.scope_id AND r.run_uid = p.run_uid
WHERE p.scope_id = $1 AND p.state = 'purging' AND p.purged_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM bodies b
                  WHERE b.span_start = p.span_start AND b.scope_id = p.scope_id AND b.evidence = p.evidence)
ORDER BY p.purging_at
LIMIT $2

-- name: set_destroyed no copy of ours is left of these parts; their state says so once the log does
UPDATE parts SET purged_at = now()
WHERE scope_id = $1 AND evidence = ANY($2::uuid[]) AND state = 'purging' AND purged_at IS NULL
RETURNING evidence

-- name: published parts of which no copy is left and whose purge leaf is published
SELECT p.evidence
FROM parts p
JOIN log_entries l ON l.subject = p.evidence AND l.kind = 'purge' AND l.scope_id = p.scope_id
WHERE p.scope_id = $1 AND p.state = 'purging' AND p.purged_at IS NOT NULL
  AND l.idx < (SELECT published_size FROM log_state)
LIMIT $2

-- name: done T4 of such parts; asked for before and not within, or a planner that knows of few asks once for each
UPDATE parts SET state = 'purged'
WHERE scope_id = $1 AND evidence = ANY($2::uuid[]) AND state = 'purging' AND purged_at IS NOT NULL
RETURNING evidence

-- name: due whether there is anything that cannot wait for the next minute
SELECT EXISTS (SELECT 1 FROM erasures WHERE state = 'accepted' OR (state = 'purging' AND waits_for IS DISTINCT FROM 'publication'))
    OR EXISTS (SELECT 1 FROM parts WHERE state = 'purging' AND purged_at IS NULL)
    OR EXISTS (SELECT 1
               FROM (SELECT scope_id, evidence FROM parts WHERE state = 'purging' AND purged_at IS NOT NULL
                     ORDER BY scope_id, purging_at LIMIT 1) AS p
               JOIN log_entries l ON l.subject = p.evidence AND l.kind = 'purge' AND l.scope_id = p.scope_id
               WHERE l.idx < (SELECT published_size FROM log_state))
