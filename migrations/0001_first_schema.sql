-- The first schema. Runs before the code that needs it; on an empty database no lock matters.
--
-- Rules that hold for every table here and later:
--   * every key begins with the scope, so that tables can be distributed by scope (api_keys, leases, queue_shards and
--     schema_migrations are the exceptions: they are looked up without one and stay local);
--   * content exists in `bodies.ciphertext` and nowhere else; exact sizes exist in `bodies.exact_bytes` and nowhere else;
--   * caller text (run, exchange, attempt, labels, source ids) is bounded and checked before it comes here;
--   * closed words carry a CHECK, so that a bug in a service cannot invent a state.

-- Three roles. The owner (whoever runs this file) migrates; `custody_duties` owns `bodies` and its partitions and nothing
-- else, because only an owner may attach, detach and drop; `custody_service` reads and writes rows.
DO $$
BEGIN
    CREATE ROLE custody_service NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$;
DO $$
BEGIN
    CREATE ROLE custody_duties NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$;

CREATE TABLE scopes (
    scope_id        uuid        NOT NULL,
    name            text        NOT NULL,
    policy          jsonb       NOT NULL,
    policy_version  integer     NOT NULL DEFAULT 1,
    metadata_retention_s  bigint NOT NULL,
    retention_max_s       bigint NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT scopes_pkey PRIMARY KEY (scope_id),
    CONSTRAINT scopes_name_once UNIQUE (name),
    CONSTRAINT scopes_name_form CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$'),
    CONSTRAINT scopes_version_from_one CHECK (policy_version >= 1)
);

-- `scope_id` is null for a store-wide operator. Two live digests allow a rotation without a gap.
CREATE TABLE api_keys (
    key_id        text        NOT NULL,
    scope_id      uuid        REFERENCES scopes (scope_id),
    role          text        NOT NULL,
    digests       bytea[]     NOT NULL,
    clearances    text[]      NOT NULL DEFAULT '{}',
    note          text        NOT NULL DEFAULT '',
    created_by    text        NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    confirmed_at  timestamptz,
    expires_at    timestamptz NOT NULL,
    last_used_at  timestamptz,
    revoked_at    timestamptz,
    CONSTRAINT api_keys_pkey PRIMARY KEY (key_id),
    CONSTRAINT api_keys_role_closed CHECK (role IN ('runtime', 'reviewer', 'custodian', 'auditor', 'operator')),
    CONSTRAINT api_keys_scope_needed CHECK (scope_id IS NOT NULL OR role = 'operator'),
    CONSTRAINT api_keys_one_or_two_secrets CHECK (cardinality(digests) BETWEEN 1 AND 2)
);
CREATE INDEX api_keys_by_scope ON api_keys (scope_id, created_at);

CREATE TABLE runs (
    scope_id        uuid        NOT NULL REFERENCES scopes (scope_id),
    run_uid         uuid        NOT NULL,
    run             text        COLLATE "C" NOT NULL,
    state           text        NOT NULL DEFAULT 'open',
    erased          boolean     NOT NULL DEFAULT false,
    mode            text        NOT NULL,
    content         text        NOT NULL,
    sampled         boolean     NOT NULL,
    kinds           text[]      NOT NULL,
    retain_until    timestamptz NOT NULL,
    shared          boolean     NOT NULL DEFAULT false,
    owner_key       text        NOT NULL,
    policy_version  integer     NOT NULL,
    labels          text[]      NOT NULL DEFAULT '{}',
    subject         bytea,
    default_set     bytea,
    declared_at     timestamptz NOT NULL DEFAULT now(),
    narrowed_at     timestamptz,
    closing_at      timestamptz,
    closed_at       timestamptz,
    never_closed    boolean     NOT NULL DEFAULT false,
    close_opening   bytea,
    CONSTRAINT runs_pkey PRIMARY KEY (scope_id, run_uid),
    CONSTRAINT runs_once UNIQUE (scope_id, run),
    CONSTRAINT runs_state_closed CHECK (state IN ('open', 'closing', 'closed')),
    CONSTRAINT runs_mode_closed CHECK (mode IN ('normal', 'temporary')),
    CONSTRAINT runs_content_closed CHECK (content IN ('allow', 'opt_out')),
    CONSTRAINT runs_kinds_closed CHECK (kinds <@ ARRAY['logical-request', 'observable-output']),
    CONSTRAINT runs_labels_bounded CHECK (cardinality(labels) <= 16),
    CONSTRAINT runs_closed_has_time CHECK (state <> 'closed' OR closed_at IS NOT NULL)
);
CREATE INDEX runs_by_declared ON runs (scope_id, declared_at, run_uid);
CREATE INDEX runs_by_label ON runs USING gin (labels);
CREATE INDEX runs_unclosed ON runs (scope_id, closing_at, declared_at) WHERE state <> 'closed';
CREATE INDEX runs_by_subject ON runs (scope_id, subject) WHERE subject IS NOT NULL;

-- What a closing announced: the last number of each session. `announced` is null where a session was named without one.
CREATE TABLE sessions (
    scope_id      uuid        NOT NULL,
    run_uid       uuid        NOT NULL,
    session       text        COLLATE "C" NOT NULL,
    announced     bigint,
    announced_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT sessions_pkey PRIMARY KEY (scope_id, run_uid, session),
    CONSTRAINT sessions_run FOREIGN KEY (scope_id, run_uid) REFERENCES runs (scope_id, run_uid),
    CONSTRAINT sessions_announced_bounded CHECK (announced BETWEEN 0 AND 1000000000)
);

-- Dispatch and settlement as the runtime told them. The first word stays; a contradiction is kept beside it.
-- `refs` are keyed hashes of trace, response and request ids, for finding; they reveal nothing by themselves.
CREATE TABLE attempts (
    scope_id             uuid        NOT NULL,
    run_uid              uuid        NOT NULL,
    exchange             text        COLLATE "C" NOT NULL,
    attempt              text        COLLATE "C" NOT NULL,
    dispatch             text        NOT NULL DEFAULT 'unknown',
    settlement           text        NOT NULL DEFAULT 'unknown',
    dispatch_conflict    text,
    settlement_conflict  text,
    refs                 bytea[]     NOT NULL DEFAULT '{}',
    first_at             timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT attempts_pkey PRIMARY KEY (scope_id, run_uid, exchange, attempt),
    CONSTRAINT attempts_run FOREIGN KEY (scope_id, run_uid) REFERENCES runs (scope_id, run_uid),
    CONSTRAINT attempts_dispatch_closed CHECK (dispatch IN ('unknown', 'dispatched', 'not_dispatched')),
    CONSTRAINT attempts_settlement_closed CHECK (settlement IN ('unknown', 'completed', 'failed', 'cancelled')),
    CONSTRAINT attempts_dispatch_conflict_closed CHECK (dispatch_conflict IN ('dispatched', 'not_dispatched')),
    CONSTRAINT attempts_settlement_conflict_closed CHECK (settlement_conflict IN ('completed', 'failed', 'cancelled')),
    CONSTRAINT attempts_refs_bounded CHECK (cardinality(refs) <= 4)
);
CREATE INDEX attempts_by_ref ON attempts USING gin (refs);

-- One row for each span in which parts of a scope expire. `span_end` is the instant of scheduled expiry.
CREATE TABLE buckets (
    scope_id      uuid        NOT NULL REFERENCES scopes (scope_id),
    bucket_id     uuid        NOT NULL,
    span_start    timestamptz NOT NULL,
    span_end      timestamptz NOT NULL,
    state         text        NOT NULL DEFAULT 'live',
    expired_at    timestamptz,
    destroyed_at  timestamptz,
    CONSTRAINT buckets_pkey PRIMARY KEY (scope_id, bucket_id),
    CONSTRAINT buckets_span_once UNIQUE (scope_id, span_start),
    CONSTRAINT buckets_span_forward CHECK (span_end > span_start),
    CONSTRAINT buckets_state_closed CHECK (state IN ('live', 'expired', 'destroyed'))
);
CREATE INDEX buckets_by_end ON buckets (span_end) WHERE state <> 'destroyed';

-- What parts depend on. The id is a keyed hash of the bindings, so equal sets share one row.
CREATE TABLE source_sets (
    scope_id  uuid      NOT NULL,
    set_id    bytea     NOT NULL,
    sources   text[]    NOT NULL,
    versions  integer[] NOT NULL,
    CONSTRAINT source_sets_pkey PRIMARY KEY (scope_id, set_id),
    CONSTRAINT source_sets_paired CHECK (cardinality(sources) = cardinality(versions)),
    CONSTRAINT source_sets_bounded CHECK (cardinality(sources) BETWEEN 1 AND 64)
);
CREATE INDEX source_sets_by_source ON source_sets USING gin (sources);

CREATE TABLE sources (
    scope_id    uuid        NOT NULL REFERENCES scopes (scope_id),
    source      text        COLLATE "C" NOT NULL,
    source_uid  uuid        NOT NULL,
    latest      integer     NOT NULL DEFAULT 0,
    audience    text[]      NOT NULL DEFAULT '{}',
    revoked_at  timestamptz,
    destroyed   boolean     NOT NULL DEFAULT false,
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT sources_pkey PRIMARY KEY (scope_id, source)
);

CREATE TABLE source_versions (
    scope_id      uuid        NOT NULL,
    source        text        COLLATE "C" NOT NULL,
    version       integer     NOT NULL,
    withdrawn_at  timestamptz,
    destroyed     boolean     NOT NULL DEFAULT false,
    created_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT source_versions_pkey PRIMARY KEY (scope_id, source, version),
    CONSTRAINT source_versions_source FOREIGN KEY (scope_id, source) REFERENCES sources (scope_id, source),
    CONSTRAINT source_versions_from_one CHECK (version >= 1)
);

-- Metadata of a stored part. No digest of content, no exact size: both would outlive the content and could be guessed from.
CREATE TABLE parts (
    scope_id      uuid        NOT NULL,
    evidence      uuid        NOT NULL,
    run_uid       uuid        NOT NULL,
    exchange      text        COLLATE "C" NOT NULL,
    attempt       text        COLLATE "C" NOT NULL,
    kind          text        COLLATE "C" NOT NULL,
    bucket_id     uuid        NOT NULL,
    span_start    timestamptz NOT NULL,
    session       text        COLLATE "C",
    sequence      bigint,
    size_class    integer     NOT NULL,
    media_type    text        NOT NULL,
    completeness  text        NOT NULL,
    vantage       text        NOT NULL,
    source_set    bytea,
    captured_at   timestamptz,
    received_at   timestamptz NOT NULL,
    stored_at     timestamptz NOT NULL,
    commitment    bytea       NOT NULL,
    meta_commitment bytea     NOT NULL,
    meta_opening  bytea       NOT NULL,
    state         text        NOT NULL DEFAULT 'stored',
    purge_reason  text,
    purging_at    timestamptz,
    purged_at     timestamptz,
    CONSTRAINT parts_pkey PRIMARY KEY (scope_id, evidence),
    CONSTRAINT parts_identity_once UNIQUE (scope_id, run_uid, exchange, attempt, kind),
    CONSTRAINT parts_kind_closed CHECK (kind IN ('logical-request', 'observable-output')),
    CONSTRAINT parts_completeness_closed CHECK (completeness IN ('complete', 'truncated', 'interrupted', 'unknown')),
    CONSTRAINT parts_vantage_closed CHECK (vantage IN ('sdk', 'gateway', 'wire')),
    CONSTRAINT parts_state_closed CHECK (state IN ('stored', 'purging', 'purged', 'lost_in_restore')),
    CONSTRAINT parts_purge_reason_closed CHECK (purge_reason IN
        ('erased', 'retention_expired', 'source_unavailable', 'dependency_changed')),
    CONSTRAINT parts_purge_has_reason CHECK (state NOT IN ('purging', 'purged') OR purge_reason IS NOT NULL),
    CONSTRAINT parts_numbered_in_session CHECK (sequence IS NULL OR (session IS NOT NULL AND sequence >= 1)),
    CONSTRAINT parts_commitment_32 CHECK (length(commitment) = 32 AND length(meta_commitment) = 32 AND length(meta_opening) = 32)
);
CREATE INDEX parts_by_stored ON parts (scope_id, stored_at, evidence);
CREATE INDEX parts_by_run ON parts (scope_id, run_uid, stored_at, evidence);
CREATE INDEX parts_by_source_set ON parts (scope_id, source_set) WHERE source_set IS NOT NULL;
CREATE INDEX parts_purging ON parts (scope_id, purging_at) WHERE state = 'purging';

-- The bytes. One partition for each expiry span over all scopes; scheduled expiry drops it. Ciphertext does not compress:
-- EXTERNAL spares the attempt. Partitions live in a schema of their own, in which only the duties may create.
CREATE SCHEMA spans;
CREATE TABLE bodies (
    span_start   timestamptz NOT NULL,
    scope_id     uuid        NOT NULL,
    evidence     uuid        NOT NULL,
    bucket_id    uuid        NOT NULL,
    wrapped      bytea       NOT NULL,
    exact_bytes  integer     NOT NULL,
    ciphertext   bytea       NOT NULL,
    CONSTRAINT bodies_pkey PRIMARY KEY (span_start, scope_id, evidence),
    CONSTRAINT bodies_wrapped_60 CHECK (length(wrapped) = 60)
) PARTITION BY RANGE (span_start);
ALTER TABLE bodies ALTER COLUMN ciphertext SET STORAGE EXTERNAL;

-- What is not there, and why; never content. Two forms of row: *named* (an identity, at most 256 a run) and *ranges* (a
-- session's numbers as one multirange, at most 64 ranges a session and run; what does not fit is counted in `merged`).
-- A named row that also has a number is in the ranges row too: numbers are counted there, names are for reading.
CREATE TABLE gaps (
    scope_id       uuid        NOT NULL,
    run_uid        uuid        NOT NULL,
    gap_id         uuid        NOT NULL,
    said_by        text        NOT NULL,
    reason         text        NOT NULL,
    session        text        COLLATE "C",
    sequences      int8multirange,
    merged         bigint      NOT NULL DEFAULT 0,
    exchange       text        COLLATE "C",
    attempt        text        COLLATE "C",
    kind           text        COLLATE "C",
    sequence       bigint,
    times          bigint      NOT NULL DEFAULT 1,
    first_at       timestamptz NOT NULL,
    last_at        timestamptz NOT NULL,
    superseded_by  uuid,
    CONSTRAINT gaps_pkey PRIMARY KEY (scope_id, run_uid, gap_id),
    CONSTRAINT gaps_run FOREIGN KEY (scope_id, run_uid) REFERENCES runs (scope_id, run_uid),
    CONSTRAINT gaps_said_by_closed CHECK (said_by IN ('store', 'client', 'count')),
    CONSTRAINT gaps_reason_closed CHECK (reason IN (
        'capacity_exceeded', 'client_mask_failed', 'client_queue_full', 'client_shutdown', 'client_transport',
        'client_unserialisable', 'content_opt_out', 'dependency_changed', 'digest_mismatch', 'encoding_failed',
        'erased', 'identity_conflict', 'interrupted', 'kind_not_admitted', 'not_observed', 'not_sampled',
        'part_too_large', 'queue_entry_lost', 'queue_unavailable', 'retention_expired', 'run_byte_limit',
        'run_closed', 'run_not_admitted', 'run_part_limit', 'source_revoked', 'source_unknown', 'store_unavailable',
        'temporary_mode', 'ticket_expired', 'ticket_invalid', 'unaccounted', 'write_failed')),
    CONSTRAINT gaps_kind_closed CHECK (kind IN ('logical-request', 'observable-output')),
    CONSTRAINT gaps_form CHECK (
        (exchange IS NULL AND attempt IS NULL AND kind IS NULL AND sequence IS NULL)
        OR (exchange IS NOT NULL AND attempt IS NOT NULL AND kind IS NOT NULL AND sequences IS NULL))
);
CREATE UNIQUE INDEX gaps_named_once ON gaps (scope_id, run_uid, exchange, attempt, kind, said_by, reason)
    WHERE exchange IS NOT NULL;
CREATE UNIQUE INDEX gaps_ranges_once ON gaps (scope_id, run_uid, session, said_by, reason) NULLS NOT DISTINCT
    WHERE exchange IS NULL;

-- Erasures that operators asked for, and the marks that make a late write impossible.
CREATE TABLE erasures (
    scope_id      uuid        NOT NULL REFERENCES scopes (scope_id),
    erasure_id    uuid        NOT NULL,
    target_kind   text        NOT NULL,
    run_uid       uuid,
    evidence      uuid,
    state         text        NOT NULL DEFAULT 'accepted',
    requested_by  text        NOT NULL,
    requested_at  timestamptz NOT NULL DEFAULT now(),
    purged_at     timestamptz,
    CONSTRAINT erasures_pkey PRIMARY KEY (scope_id, erasure_id),
    CONSTRAINT erasures_target_closed CHECK (target_kind IN ('part', 'run')),
    CONSTRAINT erasures_state_closed CHECK (state IN ('accepted', 'purging', 'purged', 'deferred'))
);
CREATE INDEX erasures_open ON erasures (scope_id, requested_at) WHERE state <> 'purged';

-- `mark` is a keyed hash of an evidence id or of an identity: it outlives the caller's text and tells nothing without the key.
CREATE TABLE tombstones (
    scope_id    uuid        NOT NULL,
    mark        bytea       NOT NULL,
    reason      text        NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT tombstones_pkey PRIMARY KEY (scope_id, mark),
    CONSTRAINT tombstones_reason_closed CHECK (reason IN ('erased', 'retention_expired'))
);

-- Who read what. Append-only for everybody but the owner; by month, so that old months go without a row being touched.
CREATE TABLE accesses (
    scope_id   uuid        NOT NULL,
    at         timestamptz NOT NULL DEFAULT now(),
    access_id  uuid        NOT NULL,
    key_id     text        NOT NULL,
    role       text        NOT NULL,
    evidence   uuid        NOT NULL,
    purpose    text,
    outcome    text        NOT NULL,
    CONSTRAINT accesses_pkey PRIMARY KEY (scope_id, at, access_id)
) PARTITION BY RANGE (at);
CREATE INDEX accesses_by_evidence ON accesses (scope_id, evidence, at);

CREATE TABLE operator_actions (
    scope_id   uuid        NOT NULL,
    at         timestamptz NOT NULL DEFAULT now(),
    action_id  uuid        NOT NULL,
    key_id     text        NOT NULL,
    action     text        NOT NULL,
    target     text        NOT NULL,
    CONSTRAINT operator_actions_pkey PRIMARY KEY (scope_id, at, action_id)
) PARTITION BY RANGE (at);

-- The outbox of the proof log: written in the transaction that stores a part, taken by the sequencer in id order.
CREATE TABLE log_queue (
    id        bigint GENERATED ALWAYS AS IDENTITY,
    scope_id  uuid        NOT NULL,
    leaf      bytea       NOT NULL,
    CONSTRAINT log_queue_pkey PRIMARY KEY (id)
);

-- A duty runs in one process at a time. The row also tells when it last ran and how it ended.
CREATE TABLE leases (
    duty           text        NOT NULL,
    holder         uuid,
    held_until     timestamptz,
    last_started   timestamptz,
    last_finished  timestamptz,
    last_success   timestamptz,
    last_outcome   text        NOT NULL DEFAULT 'never',
    CONSTRAINT leases_pkey PRIMARY KEY (duty)
);

-- The epoch of each queue shard. Where Redis says another one, the queue was lost.
CREATE TABLE queue_shards (
    shard       integer     NOT NULL,
    epoch       text        NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT now(),
    lost_at     timestamptz,
    CONSTRAINT queue_shards_pkey PRIMARY KEY (shard)
);

-- Forward only -------------------------------------------------------------------------------------------------------

CREATE FUNCTION refuse_part_going_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state = OLD.state
       OR (OLD.state = 'stored' AND NEW.state IN ('purging', 'lost_in_restore'))
       OR (OLD.state = 'purging' AND NEW.state = 'purged')
       OR (OLD.state = 'lost_in_restore' AND NEW.state = 'purging') THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a part goes forward only' USING ERRCODE = 'check_violation', CONSTRAINT = 'parts_forward_only';
END $$;
CREATE TRIGGER parts_forward_only BEFORE UPDATE OF state ON parts FOR EACH ROW EXECUTE FUNCTION refuse_part_going_back();

CREATE FUNCTION refuse_run_going_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.erased AND NOT NEW.erased)
       OR (OLD.state = 'closed' AND NEW.state <> 'closed')
       OR (OLD.state = 'closing' AND NEW.state = 'open')
       OR (OLD.mode = 'temporary' AND NEW.mode <> 'temporary')
       OR (OLD.content = 'opt_out' AND NEW.content <> 'opt_out')
       OR NEW.retain_until > OLD.retain_until
       OR NOT (NEW.kinds <@ OLD.kinds) THEN
        RAISE EXCEPTION 'a run goes forward only' USING ERRCODE = 'check_violation', CONSTRAINT = 'runs_forward_only';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER runs_forward_only BEFORE UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION refuse_run_going_back();

CREATE FUNCTION refuse_bucket_going_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.state = 'expired' AND NEW.state = 'live') OR (OLD.state = 'destroyed' AND NEW.state <> 'destroyed') THEN
        RAISE EXCEPTION 'a bucket goes forward only' USING ERRCODE = 'check_violation', CONSTRAINT = 'buckets_forward_only';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER buckets_forward_only BEFORE UPDATE OF state ON buckets FOR EACH ROW EXECUTE FUNCTION refuse_bucket_going_back();

-- Months of the append-only tables -----------------------------------------------------------------------------------

-- Made by the owner's right on behalf of the duties: the tables stay the owner's, so nobody else can change a row.
CREATE FUNCTION ensure_month(month date) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    first date := date_trunc('month', month)::date;
    next date := (date_trunc('month', month) + interval '1 month')::date;
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['accesses', 'operator_actions'] LOOP
        IF to_regclass(format('%I', parent || to_char(first, '_YYYY_MM'))) IS NULL THEN
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
                parent || to_char(first, '_YYYY_MM'), parent, first::timestamp AT TIME ZONE 'UTC', next::timestamp AT TIME ZONE 'UTC');
        END IF;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION ensure_month(date) FROM PUBLIC;
SELECT ensure_month((now() AT TIME ZONE 'UTC')::date), ensure_month((now() AT TIME ZONE 'UTC' + interval '1 month')::date);

-- Old months may go once no scope wants their metadata any more; anything younger is refused here, whoever asks.
CREATE FUNCTION drop_month(month date) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    keep_s bigint := (SELECT coalesce(max(metadata_retention_s), 34560000) FROM scopes);
    ends timestamptz := (date_trunc('month', month) + interval '1 month') AT TIME ZONE 'UTC';
    parent text;
BEGIN
    IF ends > now() - make_interval(secs => keep_s) THEN
        RAISE EXCEPTION 'that month is younger than the metadata retention' USING ERRCODE = 'check_violation';
    END IF;
    FOREACH parent IN ARRAY ARRAY['accesses', 'operator_actions'] LOOP
        EXECUTE format('DROP TABLE IF EXISTS %I', parent || to_char(month, '_YYYY_MM'));
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION drop_month(date) FROM PUBLIC;

-- Rights -------------------------------------------------------------------------------------------------------------

GRANT USAGE ON SCHEMA public, spans TO custody_service, custody_duties;
GRANT CREATE ON SCHEMA spans TO custody_duties;
GRANT SELECT, INSERT, UPDATE ON scopes, api_keys, runs, sessions, attempts, buckets, sources, source_versions, parts, gaps,
    erasures, leases, queue_shards TO custody_service, custody_duties;
GRANT DELETE ON gaps TO custody_duties;
GRANT SELECT, INSERT ON source_sets, tombstones, accesses, operator_actions, log_queue TO custody_service, custody_duties;
GRANT SELECT, INSERT, DELETE ON bodies TO custody_service;
GRANT SELECT ON schema_migrations TO custody_service, custody_duties;
GRANT EXECUTE ON FUNCTION ensure_month(date), drop_month(date) TO custody_duties;
-- Handing a table over needs the new owner to have CREATE in its schema; the right is given for this statement only.
GRANT CREATE ON SCHEMA public TO custody_duties;
ALTER TABLE bodies OWNER TO custody_duties;
REVOKE CREATE ON SCHEMA public FROM custody_duties;
