-- name: claim take a duty that nobody holds, or whose holder stopped renewing; nothing comes back where it is held
INSERT INTO leases (duty, holder, held_until, last_started)
VALUES ($1, $2, now() + make_interval(secs => $3), now())
ON CONFLICT ON CONSTRAINT leases_pkey DO UPDATE
SET holder = excluded.holder, held_until = excluded.held_until, last_started = excluded.last_started
WHERE leases.holder IS NULL OR leases.held_until < now()
RETURNING duty

-- name: renew keep a duty that is still ours; nothing comes back where it was taken over
UPDATE leases SET held_until = now() + make_interval(secs => $3) WHERE duty = $1 AND holder = $2 RETURNING duty

-- name: finish give a duty back and say how it ended; another holder's lease is left alone
UPDATE leases
SET holder = NULL, held_until = NULL, last_finished = now(), last_outcome = $3,
    last_success = CASE WHEN $4 THEN now() ELSE last_success END
WHERE duty = $1 AND holder = $2

-- name: tell say how it goes with a duty that is done all the time, and still is
UPDATE leases
SET last_finished = now(), last_outcome = $2, last_success = CASE WHEN $3 THEN now() ELSE last_success END
WHERE duty = $1 AND holder IS NOT NULL

-- name: all how every duty stands
SELECT duty, holder IS NOT NULL AND held_until >= now() AS held, last_started, last_finished, last_success,
       last_outcome, now() AS now
FROM leases
ORDER BY duty

-- name: see remember the latest database time that was seen, and say what was known before and what it is now
WITH before AS (SELECT seen_at FROM leases WHERE duty = $1),
     kept AS (INSERT INTO leases (duty, seen_at) VALUES ($1, now())
              ON CONFLICT ON CONSTRAINT leases_pkey DO UPDATE SET seen_at = greatest(leases.seen_at, now()))
SELECT (SELECT seen_at FROM before) AS before, now() AS now

-- name: paced_at when this duty last let something go
SELECT paced_at FROM leases WHERE duty = $1

-- name: pace remember that this duty let something go just now
INSERT INTO leases (duty, paced_at) VALUES ($1, now())
ON CONFLICT ON CONSTRAINT leases_pkey DO UPDATE SET paced_at = now()

-- name: place how far a duty came that goes through more than one run has time for
SELECT place FROM leases WHERE duty = $1

-- name: keep_place remember how far this duty came; null: to the end
INSERT INTO leases (duty, place) VALUES ($1, $2)
ON CONFLICT ON CONSTRAINT leases_pkey DO UPDATE SET place = excluded.place
