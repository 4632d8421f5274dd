-- Which runs the purge has to look at because their retention was shortened. It looked at every run that was ever narrowed,
-- with all of its parts, each minute and for as long as rows are kept: with enough of them it came to nothing else.
--
-- Runs before the code that needs it. What code of before shortens meanwhile goes with its bucket. Locks: adding an empty
-- column rewrites nothing; the index and the update touch narrowed runs only.

-- `destroy_from`: the end of a retention that was shortened. Parts may lie in a bucket that expires later, and are destroyed
-- one by one from then on. Null again once there are none.
ALTER TABLE runs ADD COLUMN destroy_from timestamptz;
UPDATE runs SET destroy_from = retain_until WHERE narrowed_at IS NOT NULL;
CREATE INDEX runs_shortened ON runs (destroy_from, scope_id, run_uid) WHERE destroy_from IS NOT NULL;
DROP INDEX runs_narrowed;
