-- name: by_id one key
SELECT key_id, scope_id, role, digests, clearances, note, created_by, created_at, confirmed_at, expires_at,
       last_used_at, revoked_at
FROM api_keys
WHERE key_id = $1

-- name: lock one key that nobody else changes until the transaction ends
SELECT key_id, scope_id, role, digests, clearances, note, created_by, created_at, confirmed_at, expires_at,
       last_used_at, revoked_at
FROM api_keys
WHERE key_id = $1
FOR UPDATE

-- name: of_scope the keys of one scope, newest first
SELECT key_id, scope_id, role, digests, clearances, note, created_by, created_at, confirmed_at, expires_at,
       last_used_at, revoked_at
FROM api_keys
WHERE scope_id = $1
ORDER BY created_at DESC, key_id
LIMIT $2

-- name: all every key, newest first, for an operator of the whole store
SELECT key_id, scope_id, role, digests, clearances, note, created_by, created_at, confirmed_at, expires_at,
       last_used_at, revoked_at
FROM api_keys
ORDER BY created_at DESC, key_id
LIMIT $1

-- name: page_of_scope keys of one scope that do not wait for a second operator, before the key $2 (null: the newest)
SELECT key_id, scope_id, role, digests, clearances, note, created_by, created_at, confirmed_at, expires_at,
       last_used_at, revoked_at
FROM api_keys
WHERE scope_id = $1 AND NOT (confirmed_at IS NULL AND revoked_at IS NULL AND expires_at > now())
  AND ($2::text IS NULL OR (created_at, key_id) < (SELECT k.created_at, k.key_id FROM api_keys k
                                                   WHERE k.key_id = $2 AND k.scope_id = $1))
ORDER BY created_at DESC, key_id DESC
LIMIT $3

-- name: page_of_all keys of the whole store that do not wait, before the key $1 (null: the newest)
SELECT key_id, scope_id, role, digests, clearances, note, created_by, created_at, confirmed_at, expires_at,
       last_used_at, revoked_at
FROM api_keys
WHERE NOT (confirmed_at IS NULL AND revoked_at IS NULL AND expires_at > now())
  AND ($1::text IS NULL OR (created_at, key_id) < (SELECT k.created_at, k.key_id FROM api_keys k WHERE k.key_id = $1))
ORDER BY created_at DESC, key_id DESC
LIMIT $2

-- name: waiting keys that wait for a second operator, of one scope or (null) of the whole store, those that wait longest first
SELECT key_id, scope_id, role, digests, clearances, note, created_by, created_at, confirmed_at, expires_at,
       last_used_at, revoked_at
FROM api_keys
WHERE ($1::uuid IS NULL OR scope_id = $1) AND confirmed_at IS NULL AND revoked_at IS NULL AND expires_at > now()
ORDER BY created_at, key_id
LIMIT $2

-- name: count_waiting how many keys wait for a second operator, of one scope or (null) of the whole store
SELECT count(*)
FROM api_keys
WHERE ($1::uuid IS NULL OR scope_id = $1) AND confirmed_at IS NULL AND revoked_at IS NULL AND expires_at > now()

-- name: insert a new key; one that waits for a second operator has no `confirmed_at`
INSERT INTO api_keys (key_id, scope_id, role, digests, clearances, note, created_by, confirmed_at, expires_at)
VALUES ($1, $2, $3, ARRAY[$4::bytea], $5, $6, $7, CASE WHEN $8::boolean THEN now() END, now() + make_interval(secs => $9))
RETURNING key_id, scope_id, role, digests, clearances, note, created_by, created_at, confirmed_at, expires_at,
          last_used_at, revoked_at

-- name: confirm the second operator's word
UPDATE api_keys SET confirmed_at = now() WHERE key_id = $1 AND confirmed_at IS NULL

-- name: set_digests the secrets that are good from now on
UPDATE api_keys SET digests = $2::bytea[] WHERE key_id = $1

-- name: revoke no secret of it is good any more; the first revocation's time stays
UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE key_id = $1

-- name: note_uses when keys were used last; never earlier than what is there
UPDATE api_keys k
SET last_used_at = greatest(k.last_used_at, u.used_at)
FROM unnest($1::text[], $2::timestamptz[]) AS u (key_id, used_at)
WHERE k.key_id = u.key_id
