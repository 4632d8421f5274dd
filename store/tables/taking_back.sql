-- What takes places of the log back that nobody was shown. Only the owner may: to all others the log goes forward only.

-- name: let_go_back until `forward_only` the log may become smaller, in this transaction, and nobody else writes where it ends
ALTER TABLE log_state DISABLE TRIGGER log_state_forward_only

-- name: forward_only as before
ALTER TABLE log_state ENABLE TRIGGER log_state_forward_only

-- name: drop_entries entries between two indexes
DELETE FROM log_entries WHERE idx >= $1 AND idx < $2

-- name: drop_tiles tiles that a tree of this size has not filled
DELETE FROM log_tiles WHERE tile >= $1::bigint >> (8 * (level + 1))

-- name: drop_checkpoints what was signed for this size and beyond; the mirror has what was published
DELETE FROM log_checkpoints WHERE size >= $1

-- name: last_entry the highest index that there is, also of an entry that does not belong there
SELECT max(idx) FROM log_entries

-- name: end_at where the tree ends from now on; the stop becomes one that a restore, or an operator, can end
UPDATE log_state
SET size = $1, root = $2, edge = $3, open_tiles = $4, published_size = least(published_size, $1), stop = 'rolled_back',
    stopped_at = now()
