-- name: note how deep the queue is in this minute; who comes second in it notes nothing
INSERT INTO queue_depths (minute, parts, notes, bytes_class, oldest_s, counts, queue)
VALUES (date_trunc('minute', now(), 'UTC'), $1, $2, $3, $4, $5, $6)
ON CONFLICT ON CONSTRAINT queue_depths_pkey DO NOTHING
RETURNING 1 AS one

-- name: forget what is older than a week, and than the minute with which the first hour of a week is compared
DELETE FROM queue_depths WHERE minute < now() - interval '7 days 2 hours' RETURNING 1 AS one

-- name: kept since when there is something, and what time it is
SELECT now() AS now, (SELECT min(minute) FROM queue_depths) AS first

-- name: before the last that was noted before a time
SELECT minute, counts, queue FROM queue_depths WHERE minute < $1 ORDER BY minute DESC LIMIT 1

-- name: stretches what was noted from a time on, all of $2 seconds together: the most that waited, and what was counted at their end
WITH stretch AS (
    SELECT min(minute) AS first, max(minute) AS last, max(parts) AS parts, max(notes) AS notes,
           max(bytes_class) AS bytes_class, max(oldest_s) AS oldest_s,
           count(DISTINCT queue) = 1 AND count(queue) = count(*) AS one_queue
    FROM queue_depths
    WHERE minute >= $1 AND minute <= now()
    GROUP BY date_bin(make_interval(secs => $2), minute, 'epoch')
)
SELECT s.first, s.last, s.parts, s.notes, s.bytes_class, s.oldest_s, d.counts, d.queue, s.one_queue
FROM stretch s JOIN queue_depths d ON d.minute = s.last
ORDER BY s.last
