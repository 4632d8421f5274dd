-- name: all the epoch that each shard of the queue is known by
SELECT shard, epoch, started_at, lost_at FROM queue_shards ORDER BY shard

-- name: begin a shard that was not known
INSERT INTO queue_shards (shard, epoch) VALUES ($1, $2) ON CONFLICT ON CONSTRAINT queue_shards_pkey DO NOTHING

-- name: lose the shard was lost; from now on it is known by another epoch
UPDATE queue_shards SET epoch = $3, started_at = now(), lost_at = now() WHERE shard = $1 AND epoch = $2
