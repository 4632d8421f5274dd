-- name: insert who did what; there is no way to change or remove it
INSERT INTO operator_actions (scope_id, action_id, key_id, action, target, purpose)
VALUES ($1, $2, $3, $4, $5, $6)

-- name: newest actions of a scope before ($2, $3) and not before $4; index operator_actions_pkey
SELECT at, action_id, key_id, action, target, purpose, now() AS opened_at, clock_timestamp() AS read_at
FROM operator_actions
WHERE scope_id = $1 AND (at, action_id) < ($2, $3) AND at >= $4
ORDER BY at DESC, action_id DESC
LIMIT $5

-- name: oldest actions of a scope after ($2, $3) and before $4; index operator_actions_pkey
SELECT at, action_id, key_id, action, target, purpose, now() AS opened_at, clock_timestamp() AS read_at
FROM operator_actions
WHERE scope_id = $1 AND (at, action_id) > ($2, $3) AND at < $4
ORDER BY at, action_id
LIMIT $5
