-- What a revocation closed, found without looking again and again at what is destroyed already or went with its bucket.
--
-- Runs before the code that needs it; code of before works with either index. Locks: writers of `parts` wait while the index
-- is made; on a large table make it CONCURRENTLY by hand before, under this name.
CREATE INDEX IF NOT EXISTS parts_by_source ON parts (scope_id, source_set, bucket_id)
    WHERE source_set IS NOT NULL AND state = 'stored';
DROP INDEX parts_by_source_set;
