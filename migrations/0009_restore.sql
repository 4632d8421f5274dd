-- What a restored backup lacks. Runs before the code that needs it; code of before works on and knows nothing of it.
-- Locks: two new tables, and rights; nothing that is there is read or rewritten.

-- Restores: of a database that has fewer leaves than its mirror, one at a time. Leaves from `from_index` up to and without
-- `to_index` come from the mirror; up to `replayed_to` what they say was done again. `queued_until` is the last leaf that the
-- backup had waiting: some of those have their place in the log already. The counts are what the replay changed.
CREATE TABLE restores (
    restore_id    uuid         NOT NULL,
    from_index    bigint       NOT NULL,
    to_index      bigint       NOT NULL,
    replayed_to   bigint       NOT NULL,
    queued_until  bigint       NOT NULL,
    lost          bigint       NOT NULL DEFAULT 0,
    purged        bigint       NOT NULL DEFAULT 0,
    expired       bigint       NOT NULL DEFAULT 0,
    held          bigint       NOT NULL DEFAULT 0,
    closed        bigint       NOT NULL DEFAULT 0,
    unknown       bigint       NOT NULL DEFAULT 0,
    begun_by      text         NOT NULL,
    begun_at      timestamptz  NOT NULL DEFAULT now(),
    renewed_at    timestamptz,
    said_at       timestamptz,
    ended_at      timestamptz,
    CONSTRAINT restores_pkey PRIMARY KEY (restore_id),
    CONSTRAINT restores_forward CHECK (0 <= from_index AND from_index <= replayed_to AND replayed_to <= to_index)
);
CREATE UNIQUE INDEX restores_one_at_a_time ON restores ((ended_at IS NULL)) WHERE ended_at IS NULL;

-- Parts of which the log knows and the database does not: stored after the backup. Ids only: by its evidence id or its
-- receipt such a part answers that it was lost; of its identity nothing is known, and it may be posted again. Where the log
-- says that it was purged, `purge_reason` is what it answers. Parts of scopes that nobody knows have the scope of nulls.
CREATE TABLE lost_evidence (
    scope_id      uuid         NOT NULL,
    evidence      uuid         NOT NULL,
    bucket_id     uuid         NOT NULL,
    purge_reason  text,
    lost_at       timestamptz  NOT NULL DEFAULT now(),
    CONSTRAINT lost_evidence_pkey PRIMARY KEY (scope_id, evidence),
    CONSTRAINT lost_evidence_purge_reason_closed CHECK (purge_reason IN
        ('erased', 'retention_expired', 'source_unavailable', 'dependency_changed'))
);

-- Only a replay writes here, as the duties; it places and releases holds as their leaves say.
GRANT SELECT ON lost_evidence, restores TO custody_service;
GRANT SELECT, INSERT, UPDATE ON lost_evidence, restores TO custody_duties;
GRANT INSERT, UPDATE (released_by, released_at) ON holds TO custody_duties;
