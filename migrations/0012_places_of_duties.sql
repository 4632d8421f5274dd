-- Where duties go on that go through more than one run has time for. Runs before the code that needs it; code of before works
-- on, and begins at the first scope each time. Locks: one empty column; the index finds runs that were shortened, which are few.

-- `place`: ids of ours only, in the duty's own words. Null: the last run came to the end.
ALTER TABLE leases ADD COLUMN place text;

-- The purge goes from scope to scope: runs of one scope whose retention was shortened, without those of the others.
CREATE INDEX IF NOT EXISTS runs_shortened_in_scope ON runs (scope_id, destroy_from, run_uid) WHERE destroy_from IS NOT NULL;
