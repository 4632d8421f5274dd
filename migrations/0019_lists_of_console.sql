-- What lists of the console show, found without reading everybody's. Runs before the code that needs it, which works without.
-- Locks: whoever asks for an export or changes a key waits while the indexes are made, which is short: both tables are small.

-- The exports of one key, among all that were asked for in the last day.
CREATE INDEX IF NOT EXISTS exports_by_key ON exports (scope_id, requested_by, requested_at, export_id);

-- The keys that wait for a second operator, which are few.
CREATE INDEX IF NOT EXISTS api_keys_waiting ON api_keys (created_at, key_id) WHERE confirmed_at IS NULL AND revoked_at IS NULL;
