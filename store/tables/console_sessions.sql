-- name: insert a session that begins now
INSERT INTO console_sessions (digest, key_id, secret, ends_at)
VALUES ($1, $2, $3, now() + make_interval(secs => $4))

-- name: live one session that has neither ended nor rested for too long
SELECT key_id, secret, scope_id, purpose, created_at, seen_at, ends_at, now() AS read_at
FROM console_sessions
WHERE digest = $1 AND ends_at > now() AND seen_at > now() - make_interval(secs => $2)

-- name: touch somebody uses it
UPDATE console_sessions SET seen_at = greatest(seen_at, now()) WHERE digest = $1

-- name: choose_scope which scope a store-wide operator looks at
UPDATE console_sessions SET scope_id = $2 WHERE digest = $1

-- name: say_purpose what the reads from now on are for; null: nothing is said
UPDATE console_sessions SET purpose = $2 WHERE digest = $1

-- name: remove one session
DELETE FROM console_sessions WHERE digest = $1

-- name: remove_of_key every session of a key
DELETE FROM console_sessions WHERE key_id = $1

-- name: remove_over sessions that ended, or rested for $1 seconds, longer than $2 seconds ago; some at a time
DELETE FROM console_sessions
WHERE digest IN (
    SELECT digest FROM console_sessions
    WHERE ends_at < now() - make_interval(secs => $2) OR seen_at < now() - make_interval(secs => $1) - make_interval(secs => $2)
    LIMIT $3
)

-- name: count_of_key how many sessions of a key are live
SELECT count(*) FROM console_sessions
WHERE key_id = $1 AND ends_at > now() AND seen_at > now() - make_interval(secs => $2)
