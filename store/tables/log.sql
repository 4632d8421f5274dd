-- The proof log as its sequencer writes it and as everybody reads it. Nothing here changes or deletes an entry or a tile.

-- name: state where the tree ends, and whether it may go on
SELECT origin, size, root, edge, open_tiles, sequenced_at, published_size, compared_at, compared_on, stop, stopped_at, now() AS now,
    this_database() AS here
FROM log_state

-- name: lock_state the same, and nobody else appends until this transaction ends
SELECT origin, size, root, edge, open_tiles, sequenced_at, published_size, compared_at, compared_on, stop, stopped_at, now() AS now,
    this_database() AS here
FROM log_state
FOR UPDATE

-- name: waits whether some leaf waits
SELECT EXISTS (SELECT 1 FROM log_queue)

-- name: last_queued the last leaf that waits
SELECT max(id) FROM log_queue

-- name: backlog how many leaves wait, counted up to a bound, and which waits longest
SELECT (SELECT count(*) FROM (SELECT 1 FROM log_queue LIMIT $1) AS counted) AS leaves,
    (SELECT leaf FROM log_queue ORDER BY id LIMIT 1) AS oldest, now() AS now

-- name: take_queue leaves between two ids and up to a number, in no order. By deleting, so that an id that is committed late is
-- never passed over for good; by a range, since a list of ids costs twice as much
DELETE FROM log_queue
WHERE id > $1 AND id <= (
    SELECT max(id) FROM (SELECT id FROM log_queue WHERE id > $1 AND id <= $2 ORDER BY id LIMIT $3) AS first)
RETURNING id, scope_id, leaf

-- name: entries_from entries by index
SELECT idx, scope_id, kind, subject, leaf FROM log_entries WHERE idx >= $1 AND idx < $2 ORDER BY idx

-- name: leaves_from the bytes of entries, by index
SELECT leaf FROM log_entries WHERE idx >= $1 AND idx < $2 ORDER BY idx

-- name: indexes_of where leaves of one kind about some subjects are; the last, where there are several
SELECT subject, max(idx) AS idx FROM log_entries WHERE subject = ANY($1::uuid[]) AND kind = $2 GROUP BY subject

-- name: tiles some full tiles
SELECT t.level, t.tile, t.hashes
FROM unnest($1::integer[], $2::bigint[]) AS w (level, tile)
JOIN log_tiles t ON t.level = w.level AND t.tile = w.tile

-- name: advance the tree has grown
UPDATE log_state SET size = $1, root = $2, edge = $3, open_tiles = $4, sequenced_at = now()
