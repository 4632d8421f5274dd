-- How far a bundle is, for every process that is asked: until now only the one that makes it could say. Runs before the code that
-- needs it; code of before knows nothing of it. Locks: adding an empty column rewrites nothing.

-- How many parts are in the bundle that is being made, and when its process last said so; one that died says nothing any more.
ALTER TABLE exports ADD COLUMN IF NOT EXISTS done integer, ADD COLUMN IF NOT EXISTS beat_at timestamptz;

GRANT UPDATE (done, beat_at) ON exports TO custody_service;
