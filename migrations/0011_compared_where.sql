-- Where the log was compared with its mirror, and which leaf a restore lost. Runs before the code that needs it; code of before
-- works on, and goes by times alone. Locks: three columns; nothing is read or rewritten.

-- Names the running server and the table that the log's state is in: another one after a failover to a replica, a recovery to a
-- point in time, a backup in the place of what was there, a restart. A database cannot bring it back from before.
CREATE FUNCTION this_database() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT extract(epoch FROM pg_postmaster_start_time())::text || ' ' || 'log_state'::regclass::oid::text
$$;

-- `compared_on`: where `compared_at` was. Null: by a publisher of the version before.
ALTER TABLE log_state ADD COLUMN compared_on text;

-- `idx`: up to which leaf of this part nothing came back, and of how many leaves (`leaves`). A writer that still has the part in
-- the queue writes it again, under the same id and with a later leaf, which then counts. Null: of a restore of the version before.
ALTER TABLE lost_evidence
    ADD COLUMN idx bigint,
    ADD COLUMN leaves integer NOT NULL DEFAULT 1;
