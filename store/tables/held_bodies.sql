-- Bodies that a hold keeps beyond their span, and the buckets that wrap them: one of a scope is live, others are on their
-- way out. Locks: the live one shared by whoever moves into it, alone by whoever puts another in its place.

-- name: scopes_without which scopes have no live bucket of this kind yet
SELECT s.scope_id
FROM scopes s
WHERE NOT EXISTS (SELECT 1 FROM buckets b WHERE b.scope_id = s.scope_id AND b.span_start IS NULL AND b.state = 'live')
ORDER BY s.scope_id
LIMIT $1

-- name: insert_bucket its key is there already; one that another process made meanwhile stays
INSERT INTO buckets (scope_id, bucket_id, span_start, span_end)
VALUES ($1, $2, NULL, NULL)
ON CONFLICT (scope_id) WHERE span_start IS NULL AND state = 'live' DO NOTHING
RETURNING bucket_id

-- name: share_bucket the scope's live one, which stays so until the transaction ends
SELECT bucket_id FROM buckets WHERE scope_id = $1 AND span_start IS NULL AND state = 'live' FOR SHARE

-- name: candidates held parts of a bucket whose body lies in its span; by run and part, or all where the scope is held. Rows
-- that contradict each other are left out here, or a batch of nothing but those would look like the end
SELECT p.evidence
FROM holds h JOIN parts p ON p.scope_id = h.scope_id AND p.run_uid = h.run_uid AND (h.reach = 'run' OR p.evidence = h.evidence)
WHERE h.scope_id = $1 AND h.ended_at IS NULL AND p.bucket_id = $2 AND p.span_start = $3 AND p.state = 'stored'
  AND EXISTS (SELECT 1 FROM bodies b WHERE b.span_start = $3 AND b.scope_id = p.scope_id AND b.evidence = p.evidence)
UNION ALL
SELECT p.evidence
FROM bodies b JOIN parts p ON p.scope_id = b.scope_id AND p.evidence = b.evidence
WHERE b.span_start = $3 AND b.scope_id = $1 AND p.span_start = $3 AND p.state = 'stored'
  AND EXISTS (SELECT 1 FROM holds h WHERE h.scope_id = $1 AND h.ended_at IS NULL AND h.reach = 'scope')
LIMIT $4

-- name: take_parts of these parts those that are still held and lie there; nobody marks or moves them until it is committed
SELECT p.evidence
FROM parts p
WHERE p.scope_id = $1 AND p.span_start = $2 AND p.evidence = ANY($3::uuid[]) AND p.state = 'stored'
  AND is_held(p.scope_id, p.run_uid, p.evidence)
ORDER BY p.evidence
FOR UPDATE

-- name: wrapped_in_span the wrapped secrets of some bodies, and in which key; nobody wraps them anew until they are moved
SELECT b.evidence, b.bucket_id, b.wrapped
FROM bodies b
WHERE b.span_start = $1 AND b.scope_id = $2 AND b.evidence = ANY($3::uuid[])
ORDER BY b.evidence
FOR UPDATE

-- name: move_bodies to where no span drops them; sizes and ciphertexts go as they are
UPDATE bodies b SET span_start = '9999-01-01 00:00:00+00', bucket_id = w.bucket_id, wrapped = w.wrapped
FROM unnest($3::uuid[], $4::uuid[], $5::bytea[]) AS w (evidence, bucket_id, wrapped)
WHERE b.span_start = $1 AND b.scope_id = $2 AND b.evidence = w.evidence

-- name: follow_bodies where these parts' bodies lie from now on
UPDATE parts SET span_start = '9999-01-01 00:00:00+00' WHERE scope_id = $1 AND evidence = ANY($2::uuid[])

-- name: overdue parts of a scope that a hold kept beyond their bucket and that nothing holds any more; a scope that is held as a
-- whole has none, and may have millions to be asked about: that is asked first, whatever the planner thinks
WITH free AS MATERIALIZED (
    SELECT s.scope_id
    FROM scopes s
    WHERE s.scope_id = $1
      AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.scope_id = s.scope_id AND h.ended_at IS NULL AND h.reach = 'scope'))
SELECT p.scope_id, p.run_uid, p.evidence, p.bucket_id
FROM free s
CROSS JOIN LATERAL (
    SELECT p.scope_id, p.run_uid, p.evidence, p.bucket_id
    FROM parts p
    WHERE p.scope_id = s.scope_id AND p.span_start = '9999-01-01 00:00:00+00' AND p.state = 'stored' AND p.purge_reason IS NULL
      AND NOT is_held(p.scope_id, p.run_uid, p.evidence)
    LIMIT $2
) AS p
ORDER BY p.run_uid
LIMIT $2

-- name: set_stale something of these buckets was destroyed: their keys are to be changed
UPDATE buckets SET stale_at = coalesce(stale_at, now())
WHERE scope_id = $1 AND bucket_id = ANY($2::uuid[]) AND span_start IS NULL

-- name: stale live buckets whose key is to be changed
SELECT scope_id, bucket_id
FROM buckets
WHERE span_start IS NULL AND state = 'live' AND stale_at IS NOT NULL
ORDER BY scope_id

-- name: retire nobody moves anything in any more; waits for who does
UPDATE buckets SET state = 'expired', expired_at = now()
WHERE scope_id = $1 AND bucket_id = $2 AND span_start IS NULL AND state = 'live'
RETURNING bucket_id

-- name: retired buckets whose rest is to be wrapped anew
SELECT scope_id, bucket_id
FROM buckets
WHERE span_start IS NULL AND state = 'expired'
ORDER BY scope_id, bucket_id

-- name: take_wrapped secrets that a retired bucket's key still wraps; who deletes one meanwhile is left alone
SELECT b.evidence, b.bucket_id, b.wrapped
FROM bodies b
WHERE b.span_start = '9999-01-01 00:00:00+00' AND b.scope_id = $1 AND b.bucket_id = $2
ORDER BY b.evidence
LIMIT $3
FOR UPDATE SKIP LOCKED

-- name: put_wrapped the same secrets under another bucket's key
UPDATE bodies b SET bucket_id = $2, wrapped = w.wrapped
FROM unnest($3::uuid[], $4::bytea[]) AS w (evidence, wrapped)
WHERE b.span_start = '9999-01-01 00:00:00+00' AND b.scope_id = $1 AND b.evidence = w.evidence

-- name: destroyed its key is gone
UPDATE buckets SET state = 'destroyed', destroyed_at = now()
WHERE scope_id = $1 AND bucket_id = $2 AND span_start IS NULL AND state = 'expired'

-- name: left_in whether a retired bucket's key still wraps anything
SELECT EXISTS (SELECT 1 FROM bodies b
               WHERE b.span_start = '9999-01-01 00:00:00+00' AND b.scope_id = $1 AND b.bucket_id = $2)

-- name: counts how many bodies are kept beyond their span, by scope
SELECT s.name AS scope, count(*) AS bodies
FROM bodies b JOIN scopes s ON s.scope_id = b.scope_id
WHERE b.span_start = '9999-01-01 00:00:00+00'
GROUP BY s.name
ORDER BY s.name

-- name: due whether a key is to be changed
SELECT EXISTS (SELECT 1 FROM buckets
               WHERE span_start IS NULL AND state <> 'destroyed' AND (state = 'expired' OR stale_at IS NOT NULL))
