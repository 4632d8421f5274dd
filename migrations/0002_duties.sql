-- What the duties need beyond the first schema. Runs before the code that needs it. Locks: adding empty columns rewrites
-- nothing; the indexes are partial and find few rows, but on a large table make them CONCURRENTLY by hand before.

-- `seen_at`: the latest database time that a destroying duty has seen; a clock behind it has jumped back, and nothing is
-- destroyed until it has caught up. `paced_at`: when that duty last let a span go; a clock that jumps forward finds many
-- spans due at once, and they go one by one, slowly, with an alarm.
ALTER TABLE leases ADD COLUMN seen_at timestamptz, ADD COLUMN paced_at timestamptz;

-- `expire.n` counts what was purged before its bucket expired. Partial: storing a part does not touch it.
CREATE INDEX parts_gone ON parts (scope_id, bucket_id) WHERE state <> 'stored';

-- The same target again is the same erasure.
CREATE INDEX erasures_by_target ON erasures (scope_id, run_uid, evidence);

-- Runs whose retention was shortened after parts were stored: those parts lie in a bucket that expires later.
CREATE INDEX runs_narrowed ON runs (scope_id, retain_until) WHERE narrowed_at IS NOT NULL;

-- What a revocation closed and is to be destroyed later: a standing question of the purge.
CREATE INDEX sources_to_destroy ON sources (scope_id) WHERE revoked_at IS NOT NULL AND NOT destroyed;
CREATE INDEX source_versions_to_destroy ON source_versions (scope_id) WHERE withdrawn_at IS NOT NULL AND NOT destroyed;

-- Closings whose time is over are looked for every second, over all scopes.
CREATE INDEX runs_closing ON runs (closing_at) WHERE state = 'closing';
