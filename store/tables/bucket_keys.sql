-- Which keys wrap the secrets of a bucket: one, and while it is changed the old one too.

-- name: needed every key in which something is or will be wrapped
SELECT b.scope_id, b.bucket_id, b.span_start, k.key_id
FROM buckets b CROSS JOIN LATERAL (VALUES (coalesce(b.key_id, b.bucket_id)), (b.old_key_id)) AS k (key_id)
WHERE k.key_id IS NOT NULL AND (b.state = 'live' OR (b.state = 'expired' AND b.span_start IS NULL))
ORDER BY b.span_start, b.scope_id, k.key_id

-- name: samples of keys one wrapped secret each; an order that the index of bodies has, so that it is used
SELECT w.scope_id, w.key_id, s.evidence, s.wrapped
FROM unnest($2::uuid[], $3::uuid[]) AS w (scope_id, key_id)
CROSS JOIN LATERAL (
    SELECT b.evidence, b.wrapped
    FROM bodies b
    WHERE b.span_start = $1 AND b.scope_id = w.scope_id AND b.bucket_id = w.key_id
    ORDER BY b.evidence
    LIMIT 1
) AS s

-- name: known which of these keys some bucket has or had, and whether it should be gone: with all that was in the bucket, or since
-- another one took its place; an index of buckets by scope
SELECT w.scope_id, w.key_id,
    b.state = 'destroyed' OR (b.state = 'live' AND w.key_id <> ALL (
        ARRAY[coalesce(b.key_id, b.bucket_id), coalesce(b.old_key_id, b.key_id, b.bucket_id)])) AS over
FROM unnest($1::uuid[], $2::uuid[]) AS w (scope_id, key_id)
JOIN buckets b ON b.scope_id = w.scope_id AND w.key_id IN (b.bucket_id, b.key_id, b.old_key_id)

-- name: of_expired every key that any bucket of a span has or had, of those that expired and are not destroyed yet
SELECT b.scope_id, k.key_id
FROM buckets b CROSS JOIN LATERAL (VALUES (b.bucket_id), (b.key_id), (b.old_key_id)) AS k (key_id)
WHERE b.span_start = $1 AND b.state = 'expired' AND k.key_id IS NOT NULL

-- name: changeable live buckets with a span whose key is not being changed; of all scopes or one, and all buckets or one
SELECT scope_id, bucket_id
FROM buckets
WHERE state = 'live' AND span_start IS NOT NULL AND old_key_id IS NULL
  AND ($1::uuid IS NULL OR scope_id = $1) AND ($2::uuid IS NULL OR bucket_id = $2)
ORDER BY scope_id, span_start

-- name: changing buckets whose old key may still wrap something
SELECT scope_id, bucket_id, span_start, key_id, old_key_id
FROM buckets
WHERE old_key_id IS NOT NULL AND state <> 'destroyed'
  AND ($1::uuid IS NULL OR scope_id = $1) AND ($2::uuid IS NULL OR bucket_id = $2)
ORDER BY scope_id, span_start

-- name: holding live buckets without a span
SELECT scope_id, bucket_id
FROM buckets
WHERE state = 'live' AND span_start IS NULL
  AND ($1::uuid IS NULL OR scope_id = $1) AND ($2::uuid IS NULL OR bucket_id = $2)
ORDER BY scope_id

-- name: begin put another key in a locked bucket's place
UPDATE buckets SET old_key_id = coalesce(key_id, bucket_id), key_id = $3
WHERE scope_id = $1 AND bucket_id = $2 AND state = 'live' AND span_start IS NOT NULL AND old_key_id IS NULL
RETURNING scope_id, bucket_id, span_start, key_id, old_key_id

-- name: take_wrapped secrets that the old key still wraps, by their ids; who moves or deletes one meanwhile is left alone
SELECT b.evidence, b.bucket_id, b.wrapped
FROM bodies b
WHERE b.span_start = $1 AND b.scope_id = $2 AND b.bucket_id = $3 AND b.evidence > $4
ORDER BY b.evidence
LIMIT $5
FOR UPDATE SKIP LOCKED

-- name: put_wrapped the same secrets in another key
UPDATE bodies b SET bucket_id = $3, wrapped = w.wrapped
FROM unnest($4::uuid[], $5::bytea[]) AS w (evidence, wrapped)
WHERE b.span_start = $1 AND b.scope_id = $2 AND b.evidence = w.evidence

-- name: left_in whether the old key still wraps anything
SELECT EXISTS (SELECT 1 FROM bodies b WHERE b.span_start = $1 AND b.scope_id = $2 AND b.bucket_id = $3)

-- name: changed the old key is gone
UPDATE buckets SET old_key_id = NULL WHERE scope_id = $1 AND bucket_id = $2 AND old_key_id = $3
