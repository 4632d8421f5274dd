-- name: by_id one scope
SELECT scope_id, name, policy::text AS policy, policy_version, created_at, updated_at
FROM scopes
WHERE scope_id = $1

-- name: by_name one scope, as operators name it
SELECT scope_id, name, policy::text AS policy, policy_version, created_at, updated_at
FROM scopes
WHERE name = $1

-- name: lock one scope, whose policy nobody changes until the transaction ends
SELECT scope_id, name, policy::text AS policy, policy_version, created_at, updated_at
FROM scopes
WHERE scope_id = $1
FOR NO KEY UPDATE

-- name: after the next scopes by name
SELECT scope_id, name, policy::text AS policy, policy_version, created_at, updated_at
FROM scopes
WHERE name > $1
ORDER BY name
LIMIT $2

-- name: names what some scopes are called
SELECT scope_id, name FROM scopes WHERE scope_id = ANY($1::uuid[])

-- name: insert a new scope; nothing comes back where the name is taken
INSERT INTO scopes (scope_id, name, policy, metadata_retention_s, retention_max_s)
VALUES ($1, $2, $3::text::jsonb, $4, $5)
ON CONFLICT ON CONSTRAINT scopes_name_once DO NOTHING
RETURNING scope_id, name, policy::text AS policy, policy_version, created_at, updated_at

-- name: update_policy another policy, by which the version goes up; tickets of the version before are then too old
UPDATE scopes
SET policy = $2::text::jsonb, metadata_retention_s = $3, retention_max_s = $4,
    policy_version = policy_version + 1, updated_at = now()
WHERE scope_id = $1
RETURNING scope_id, name, policy::text AS policy, policy_version, created_at, updated_at
