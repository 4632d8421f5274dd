-- Exports, how much each key reads, and what operators' actions are for. Runs before the code that needs it; code of before
-- knows nothing of it. Locks: adding an empty column rewrites nothing.

-- What an export is made from: the parts that were asked for, each by its evidence reference, the runs whose closings belong
-- to them, and the checkpoint that all its proofs are under. A bundle is made anew whenever it is fetched, each part
-- checked again as a read of its requester; nothing of it rests here or on a disk, no digest of it either.
CREATE TABLE exports (
    scope_id      uuid         NOT NULL REFERENCES scopes (scope_id),
    export_id     uuid         NOT NULL,
    requested_by  text         NOT NULL,
    requested_at  timestamptz  NOT NULL DEFAULT now(),
    purpose       text,
    evidence      uuid[]       NOT NULL,
    runs          uuid[]       NOT NULL,
    anchors       bigint[]     NOT NULL,
    tree_size     bigint       NOT NULL,
    state         text         NOT NULL DEFAULT 'ready',
    given_at      timestamptz,
    CONSTRAINT exports_pkey PRIMARY KEY (scope_id, export_id),
    CONSTRAINT exports_state_closed CHECK (state IN ('ready', 'begun', 'given')),
    CONSTRAINT exports_bounded CHECK (cardinality(evidence) <= 10000 AND cardinality(runs) <= 10000 AND cardinality(anchors) <= 16)
);
CREATE INDEX exports_by_time ON exports (requested_at);

-- Access records of a key in one hour, counted by the processes that write them: what is usual is taken from these rows.
CREATE TABLE read_counts (
    scope_id    uuid         NOT NULL,
    key_id      text         NOT NULL,
    hour        timestamptz  NOT NULL,
    reads       bigint       NOT NULL,
    alarmed_at  timestamptz,
    CONSTRAINT read_counts_pkey PRIMARY KEY (scope_id, key_id, hour),
    CONSTRAINT read_counts_above_zero CHECK (reads > 0)
);
CREATE INDEX read_counts_by_hour ON read_counts (hour);

-- What an operator said that the action is for, in the words of `Custody-Purpose`.
ALTER TABLE operator_actions ADD COLUMN purpose text;

GRANT SELECT, INSERT ON exports TO custody_service;
GRANT UPDATE (state, given_at) ON exports TO custody_service;
GRANT SELECT, DELETE ON exports, read_counts TO custody_duties;
GRANT SELECT, INSERT, UPDATE ON read_counts TO custody_service;
