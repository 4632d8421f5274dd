-- What the publisher tells of the log, and asks beyond what everybody does.

-- name: name_log give the log its name, once
UPDATE log_state SET origin = $1 WHERE origin IS NULL

-- name: key_leaves leaves that name keys, in the log and on their way into it; a leaf's first field is its kind
SELECT leaf FROM log_entries WHERE subject IS NULL AND kind = 'key'
UNION ALL
SELECT leaf FROM log_queue WHERE substring(leaf FOR 10) = convert_to('{"k":"key"', 'UTF8')

-- name: keep_checkpoint keep what was signed for a size; the first stays
INSERT INTO log_checkpoints (size, note) VALUES ($1, $2) ON CONFLICT ON CONSTRAINT log_checkpoints_pkey DO NOTHING

-- name: checkpoint what was signed for a size
SELECT note FROM log_checkpoints WHERE size = $1

-- name: checkpoints_after what was signed, by size
SELECT size, note FROM log_checkpoints WHERE size > $1 ORDER BY size LIMIT $2

-- name: thin_checkpoints some of those that nothing needs any more, by the owner's rule
SELECT thin_checkpoints($1)

-- name: agree up to where the log is published, and that the mirror agrees now with the database that was asked, which another one
-- may have followed since; nothing comes back once it is stopped
UPDATE log_state SET published_size = greatest(published_size, $1), compared_at = now(), compared_on = $2
WHERE stop IS NULL
RETURNING one

-- name: stop stop the log; one that is stopped already keeps its reason, and nothing comes back
UPDATE log_state SET stop = $1, stopped_at = now() WHERE stop IS NULL RETURNING one

-- name: resume let a log go on that was rolled back, and no other
UPDATE log_state SET stop = NULL, stopped_at = NULL, compared_at = now(), compared_on = this_database()
WHERE stop = 'rolled_back'
RETURNING one
