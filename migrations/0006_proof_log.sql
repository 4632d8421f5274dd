-- The proof log: what was queued until now gets its place in one tree. Runs before the code that needs it; code of before goes
-- on queueing. Locks: `gaps` and `log_queue` are locked against writers while an index is made and options are set; on a
-- large table make `gaps_by_last` CONCURRENTLY by hand before, under this name.
--
-- These tables are of the whole store, not of a scope: they stay where the log's one sequencer is.

-- The leaves, in their order for ever. `subject` is what a leaf is about (part and purge: the evidence id; close: the run;
-- hold: the hold; revoke: the source; expire: the bucket), null for restore, resume and key. `kind` and `subject` repeat what
-- `leaf` says, for finding; `verify` compares them. Leaves that are about no scope have the scope of nulls.
CREATE TABLE log_entries (
    idx       bigint  NOT NULL,
    scope_id  uuid    NOT NULL,
    kind      text    NOT NULL,
    subject   uuid,
    leaf      bytea   NOT NULL,
    CONSTRAINT log_entries_pkey PRIMARY KEY (idx),
    CONSTRAINT log_entries_from_zero CHECK (idx >= 0),
    CONSTRAINT log_entries_leaf_bounded CHECK (length(leaf) BETWEEN 2 AND 65535),
    CONSTRAINT log_entries_kind_closed CHECK (kind IN
        ('part', 'close', 'hold', 'revoke', 'purge', 'expire', 'restore', 'resume', 'key'))
);
CREATE INDEX log_entries_by_subject ON log_entries (subject, kind);

-- Full tiles of hashes (C2SP tlog-tiles), 256 of 32 bytes each. They are what proofs are made from.
CREATE TABLE log_tiles (
    level   integer  NOT NULL,
    tile    bigint   NOT NULL,
    hashes  bytea    NOT NULL,
    CONSTRAINT log_tiles_pkey PRIMARY KEY (level, tile),
    CONSTRAINT log_tiles_full CHECK (length(hashes) = 8192),
    CONSTRAINT log_tiles_level_bounded CHECK (level BETWEEN 0 AND 7 AND tile >= 0)
);
-- Hashes do not compress: EXTERNAL spares the attempt.
ALTER TABLE log_tiles ALTER COLUMN hashes SET STORAGE EXTERNAL;

-- One row: where the tree ends. Whoever appends locks it. `edge` are the roots of its full subtrees, largest first, from which
-- `root` follows; `open_tiles` the last tile of each level while it is not full, lowest first, from which `edge` follows.
-- `published_size` and `compared_at` are the publisher's: what was signed last, and when the mirror was last found to agree.
-- While `stop` says something nothing is sequenced, published or read.
CREATE TABLE log_state (
    one             boolean      NOT NULL DEFAULT true,
    origin          text,
    size            bigint       NOT NULL DEFAULT 0,
    root            bytea        NOT NULL DEFAULT sha256(''),
    edge            bytea[]      NOT NULL DEFAULT '{}',
    open_tiles      bytea[]      NOT NULL DEFAULT '{}',
    sequenced_at    timestamptz  NOT NULL DEFAULT now(),
    published_size  bigint       NOT NULL DEFAULT 0,
    compared_at     timestamptz,
    stop            text,
    stopped_at      timestamptz,
    CONSTRAINT log_state_pkey PRIMARY KEY (one),
    CONSTRAINT log_state_one CHECK (one),
    CONSTRAINT log_state_root_32 CHECK (length(root) = 32),
    CONSTRAINT log_state_published_is_there CHECK (published_size BETWEEN 0 AND size),
    CONSTRAINT log_state_stop_closed CHECK (stop IN ('rolled_back', 'forked', 'restoring')),
    CONSTRAINT log_state_stop_has_time CHECK ((stop IS NULL) = (stopped_at IS NULL))
);
INSERT INTO log_state DEFAULT VALUES;

CREATE FUNCTION refuse_log_going_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.size < OLD.size THEN
        RAISE EXCEPTION 'the log goes forward only' USING ERRCODE = 'check_violation', CONSTRAINT = 'log_state_forward_only';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER log_state_forward_only BEFORE UPDATE OF size ON log_state FOR EACH ROW EXECUTE FUNCTION refuse_log_going_back();

-- Every checkpoint that was signed, as the note that was published.
CREATE TABLE log_checkpoints (
    size       bigint       NOT NULL,
    note       bytea        NOT NULL,
    signed_at  timestamptz  NOT NULL DEFAULT now(),
    CONSTRAINT log_checkpoints_pkey PRIMARY KEY (size),
    CONSTRAINT log_checkpoints_from_zero CHECK (size >= 0)
);

-- What each close leaf commits to: `record` are the exact bytes (it names the run as its caller does), `opening` opens the
-- leaf's commitment. Gaps may arrive until a run's retention ends; then the run is accounted for again, and the last counts.
CREATE TABLE closings (
    scope_id   uuid         NOT NULL,
    run_uid    uuid         NOT NULL,
    closed_at  timestamptz  NOT NULL,
    opening    bytea        NOT NULL,
    record     bytea        NOT NULL,
    CONSTRAINT closings_pkey PRIMARY KEY (scope_id, run_uid, closed_at),
    CONSTRAINT closings_run FOREIGN KEY (scope_id, run_uid) REFERENCES runs (scope_id, run_uid),
    CONSTRAINT closings_opening_32 CHECK (length(opening) = 32)
);

-- By which keys this store's hashes were made: an HMAC of a fixed text under the lookup key. A process that finds another key
-- in its key directory works on nothing: under it no tombstone and no reference would ever be found again.
CREATE TABLE key_marks (
    name     text         NOT NULL,
    mark     bytea        NOT NULL,
    made_at  timestamptz  NOT NULL DEFAULT now(),
    CONSTRAINT key_marks_pkey PRIMARY KEY (name),
    CONSTRAINT key_marks_32 CHECK (length(mark) = 32)
);

-- Where gaps came to a run after it was closed.
CREATE INDEX IF NOT EXISTS gaps_by_last ON gaps (last_at, scope_id, run_uid);

-- Rows come and go at the rate of captures; its first page is what the sequencer reads.
ALTER TABLE log_queue SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_threshold = 1000000);

-- Nobody but the owner changes or deletes entries, tiles and checkpoints. The duties take from the queue what they append.
GRANT SELECT ON log_entries, log_tiles, log_state, log_checkpoints, closings TO custody_service, custody_duties;
GRANT INSERT ON log_entries, log_tiles, log_checkpoints, closings TO custody_duties;
GRANT UPDATE ON log_state TO custody_duties;
GRANT DELETE ON log_queue TO custody_duties;
-- Set down once, by whoever sets the store up; after a loss of the keys only the owner can let others in.
GRANT SELECT, INSERT ON key_marks TO custody_service, custody_duties;
