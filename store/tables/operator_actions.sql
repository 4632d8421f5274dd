-- name: insert who did what; there is no way to change or remove it
INSERT INTO operator_actions (scope_id, action_id, key_id, action, target)
VALUES ($1, $2, $3, $4, $5)

-- name: latest the newest actions of one scope
SELECT scope_id, at, action_id, key_id, action, target
FROM operator_actions
WHERE scope_id = $1
ORDER BY at DESC, action_id DESC
LIMIT $2
