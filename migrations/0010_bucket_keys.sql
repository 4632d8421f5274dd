-- Changing a bucket's key. Runs before the code that needs it; code of before works on as long as nobody changes a key:
-- replace the writers first. Locks: two empty columns, and one constraint, which reads `buckets` once.

-- A bucket's first key has the bucket's id. `key_id` is the one that took its place, in which whatever is written is wrapped;
-- `old_key_id` the one that is being replaced, as long as it may wrap something. `bodies.bucket_id` says for each body in which
-- key its secret is wrapped; what was committed to is `parts.bucket_id`, which stays.
ALTER TABLE buckets
    ADD COLUMN key_id uuid,
    ADD COLUMN old_key_id uuid,
    ADD CONSTRAINT buckets_keys_differ CHECK (old_key_id IS NULL OR (key_id IS NOT NULL AND old_key_id <> key_id));
CREATE INDEX buckets_changing ON buckets (scope_id, bucket_id) WHERE old_key_id IS NOT NULL;
