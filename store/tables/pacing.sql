-- name: stands up to when a duty has let time pass, when it last did so, and what time it is; nothing for a new one
SELECT seen_at, paced_at, now() AS now FROM leases WHERE duty = $1

-- name: now the database's time
SELECT now()

-- name: go let time pass for a duty up to an instant
INSERT INTO leases (duty, seen_at, paced_at) VALUES ($1, $2, $3)
ON CONFLICT ON CONSTRAINT leases_pkey DO UPDATE SET seen_at = excluded.seen_at, paced_at = excluded.paced_at
