-- How much each key reads, hour by hour. The session's time zone is UTC.

-- name: add reads of this hour
INSERT INTO read_counts (scope_id, key_id, hour, reads)
SELECT c.scope_id, c.key_id, date_trunc('hour', now()), c.reads
FROM unnest($1::uuid[], $2::text[], $3::bigint[]) AS c (scope_id, key_id, reads)
ON CONFLICT ON CONSTRAINT read_counts_pkey DO UPDATE SET reads = read_counts.reads + excluded.reads

-- name: alarm those of these keys that read over $3 times as much in this hour as is usual, once an hour. Usual is the middle of
-- what the key read in the same hour of the seven days before, and at least $4
UPDATE read_counts c SET alarmed_at = now()
FROM (
    SELECT k.scope_id, k.key_id, greatest($4::bigint, (
        SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY coalesce(b.reads, 0))
        FROM generate_series(1, 7) AS days
        LEFT JOIN read_counts b ON b.scope_id = k.scope_id AND b.key_id = k.key_id
            AND b.hour = date_trunc('hour', now()) - days * interval '1 day')) AS usual
    FROM unnest($1::uuid[], $2::text[]) AS k (scope_id, key_id)
) AS u
WHERE c.scope_id = u.scope_id AND c.key_id = u.key_id AND c.hour = date_trunc('hour', now())
    AND c.alarmed_at IS NULL AND c.reads > $3::bigint * u.usual
RETURNING c.scope_id, c.key_id, c.reads

-- name: forget hours that tell nothing of what is usual any more
DELETE FROM read_counts WHERE hour < now() - interval '8 days' RETURNING 1 AS one
