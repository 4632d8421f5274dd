-- Holds, erasures of sources and subjects, and what goes when metadata is kept no longer. Runs before the code that needs
-- it; code of before works on and knows of no holds: replace whoever destroys before the first one is placed. Locks: new
-- columns are empty, so that nothing is rewritten; constraints are read once over `buckets`, `erasures` and `source_sets`;
-- the indexes over `parts` find little yet, but on large tables make them CONCURRENTLY by hand before, under these names.

-- A hold keeps what it covers from being destroyed, whatever else is due. It lives until `ended_at`: released, it goes on
-- keeping for a grace, and a duty ends it. `reason` is an operator's text; it goes with the metadata.
CREATE TABLE holds (
    scope_id     uuid        NOT NULL REFERENCES scopes (scope_id),
    hold_id      uuid        NOT NULL,
    reach        text        NOT NULL,
    run_uid      uuid,
    evidence     uuid,
    reason       text,
    answer       text        NOT NULL,
    placed_by    text        NOT NULL,
    placed_at    timestamptz NOT NULL DEFAULT now(),
    released_by  text,
    released_at  timestamptz,
    ended_at     timestamptz,
    CONSTRAINT holds_pkey PRIMARY KEY (scope_id, hold_id),
    CONSTRAINT holds_reach_closed CHECK (reach IN ('part', 'run', 'scope')),
    CONSTRAINT holds_answer_closed CHECK (answer IN ('placed', 'too_late')),
    CONSTRAINT holds_form CHECK ((reach = 'scope') = (run_uid IS NULL) AND (reach = 'part') = (evidence IS NOT NULL)),
    CONSTRAINT holds_reason_bounded CHECK (length(reason) BETWEEN 1 AND 500),
    CONSTRAINT holds_released_before_ended CHECK (ended_at IS NULL OR released_at IS NOT NULL)
);
CREATE INDEX holds_live ON holds (scope_id, run_uid, evidence) WHERE ended_at IS NULL;
CREATE INDEX holds_released ON holds (released_at) WHERE released_at IS NOT NULL AND ended_at IS NULL;

-- Whether anything keeps a part. The one place that says what covers what, besides policies/holds.py, which decides.
CREATE FUNCTION is_held(scope uuid, run uuid, part uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT 1 FROM holds h
        WHERE h.scope_id = scope AND h.ended_at IS NULL
          AND (h.reach = 'scope' OR (h.run_uid = run AND (h.reach = 'run' OR h.evidence = part))))
$$;

CREATE FUNCTION refuse_hold_going_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.released_at IS NOT NULL AND NEW.released_at IS DISTINCT FROM OLD.released_at)
       OR (OLD.ended_at IS NOT NULL AND NEW.ended_at IS DISTINCT FROM OLD.ended_at) THEN
        RAISE EXCEPTION 'a hold goes forward only' USING ERRCODE = 'check_violation', CONSTRAINT = 'holds_forward_only';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER holds_forward_only BEFORE UPDATE ON holds FOR EACH ROW EXECUTE FUNCTION refuse_hold_going_back();

-- A bucket without a span holds what outlives its own: each scope has one that is live. When something in it is destroyed,
-- the rest is wrapped anew for another one and its key destroyed: `stale_at` says since when that is due.
ALTER TABLE buckets
    ALTER COLUMN span_start DROP NOT NULL,
    ALTER COLUMN span_end DROP NOT NULL,
    ADD COLUMN stale_at timestamptz,
    ADD CONSTRAINT buckets_span_whole CHECK ((span_start IS NULL) = (span_end IS NULL));
CREATE UNIQUE INDEX buckets_hold_once ON buckets (scope_id) WHERE span_start IS NULL AND state = 'live';
CREATE INDEX buckets_holding ON buckets (scope_id, bucket_id) WHERE span_start IS NULL AND state <> 'destroyed';

-- Held bodies rest in a partition of their own, at a time that no span reaches and no duty drops. `parts.span_start` says
-- where a body lies; it is no part of what was committed to, and follows the body.
SET LOCAL ROLE custody_duties;
CREATE TABLE spans.bodies_253370764800 (LIKE public.bodies INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE);
ALTER TABLE public.bodies ATTACH PARTITION spans.bodies_253370764800
    FOR VALUES FROM ('9999-01-01 00:00:00+00') TO ('9999-01-01 00:00:01+00');
SET LOCAL ROLE NONE;
CREATE INDEX IF NOT EXISTS parts_held ON parts (scope_id, bucket_id) WHERE span_start = '9999-01-01 00:00:00+00';

-- Erasures of everything that depends on a source, or of a subject (only its keyed hash). `waits_for` says to an operator
-- why one is not purged yet; `cleared_at` when the queue and its file held nothing more that is older.
ALTER TABLE erasures
    ADD COLUMN source text COLLATE "C",
    ADD COLUMN subject bytea,
    ADD COLUMN waits_for text,
    ADD COLUMN cleared_at timestamptz,
    DROP CONSTRAINT erasures_target_closed,
    ADD CONSTRAINT erasures_target_closed CHECK (target_kind IN ('part', 'run', 'source', 'subject')),
    ADD CONSTRAINT erasures_form CHECK (
        (target_kind IN ('part', 'run')) = (run_uid IS NOT NULL) AND (target_kind = 'part') = (evidence IS NOT NULL)
        AND (target_kind = 'source' OR source IS NULL) AND (target_kind = 'subject' OR subject IS NULL)),
    ADD CONSTRAINT erasures_waits_for_closed CHECK (waits_for IN ('hold', 'queue', 'publication'));

-- What of an erasure is not purged yet. Parts that went with their bucket are none of it: nothing is left of them.
CREATE FUNCTION erasure_parts(e erasures) RETURNS TABLE (scope_id uuid, run_uid uuid, evidence uuid, state text, purged_at timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT p.scope_id, p.run_uid, p.evidence, p.state, p.purged_at
    FROM parts p
    WHERE e.target_kind = 'part' AND p.scope_id = e.scope_id AND p.evidence = e.evidence AND p.state <> 'purged'
    UNION ALL
    SELECT p.scope_id, p.run_uid, p.evidence, p.state, p.purged_at
    FROM parts p
    WHERE e.target_kind = 'run' AND p.scope_id = e.scope_id AND p.run_uid = e.run_uid AND p.state <> 'purged'
    UNION ALL
    SELECT p.scope_id, p.run_uid, p.evidence, p.state, p.purged_at
    FROM runs r JOIN parts p ON p.scope_id = r.scope_id AND p.run_uid = r.run_uid
    WHERE e.target_kind = 'subject' AND r.scope_id = e.scope_id AND r.subject = e.subject AND r.erased AND p.state <> 'purged'
    UNION ALL
    SELECT p.scope_id, p.run_uid, p.evidence, p.state, p.purged_at
    FROM source_sets t JOIN buckets b ON b.scope_id = t.scope_id
    JOIN parts p ON p.scope_id = t.scope_id AND p.source_set = t.set_id AND p.bucket_id = b.bucket_id
    WHERE e.target_kind = 'source' AND t.scope_id = e.scope_id AND t.sources @> ARRAY[e.source] AND b.state <> 'destroyed'
      AND p.state = 'stored' AND p.source_set IS NOT NULL AND p.span_start <> '9999-01-01 00:00:00+00'
    UNION ALL
    SELECT p.scope_id, p.run_uid, p.evidence, p.state, p.purged_at
    FROM parts p JOIN source_sets t ON t.scope_id = p.scope_id AND t.set_id = p.source_set
    WHERE e.target_kind = 'source' AND p.scope_id = e.scope_id AND t.sources @> ARRAY[e.source] AND p.state = 'stored'
      AND p.span_start = '9999-01-01 00:00:00+00'
    UNION ALL
    SELECT p.scope_id, p.run_uid, p.evidence, p.state, p.purged_at
    FROM parts p JOIN source_sets t ON t.scope_id = p.scope_id AND t.set_id = p.source_set
    WHERE e.target_kind = 'source' AND p.scope_id = e.scope_id AND t.sources @> ARRAY[e.source] AND p.state = 'purging'
$$;

-- `parts.purged_at` says when the last copy of ours was destroyed; the state becomes `purged` once the log says so too.
CREATE INDEX IF NOT EXISTS parts_destroying ON parts (scope_id, purging_at) WHERE state = 'purging' AND purged_at IS NULL;

-- A source that was erased is closed for good: it cannot be opened again.
ALTER TABLE sources ADD COLUMN erased_at timestamptz;

-- A writer remembers sets that it put; `put_at` keeps one from being forgotten while somebody may.
ALTER TABLE source_sets ADD COLUMN put_at timestamptz NOT NULL DEFAULT now();

-- When metadata is over ----------------------------------------------------------------------------------------------

-- Done with the owner's right, so that neither service nor duties may delete rows: anything younger, held, readable or on
-- its way out is refused here, whoever asks.
CREATE FUNCTION may_forget(in_scope uuid, of_run uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT 1 FROM runs r JOIN scopes s ON s.scope_id = r.scope_id
        WHERE r.scope_id = in_scope AND r.run_uid = of_run AND r.state = 'closed' AND r.retain_until <= now()
          AND r.closed_at <= now() - make_interval(secs => s.metadata_retention_s)
          AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.scope_id = in_scope AND h.ended_at IS NULL
                          AND (h.reach = 'scope' OR h.run_uid = of_run))
          AND NOT EXISTS (SELECT 1 FROM erasures e WHERE e.scope_id = in_scope AND e.run_uid = of_run AND e.state <> 'purged')
          AND NOT EXISTS (
              SELECT 1 FROM parts p JOIN buckets b ON b.scope_id = p.scope_id AND b.bucket_id = p.bucket_id
              WHERE p.scope_id = in_scope AND p.run_uid = of_run AND p.state <> 'purged'
                AND (p.state = 'purging' OR b.state <> 'destroyed' OR p.span_start = '9999-01-01 00:00:00+00')))
$$;

-- Parts of a run whose marks were left before, in the same transaction.
CREATE FUNCTION forget_parts(in_scope uuid, of_run uuid, gone_parts uuid[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    gone bigint;
BEGIN
    IF NOT may_forget(in_scope, of_run) THEN
        RAISE EXCEPTION 'the metadata of that run is still kept' USING ERRCODE = 'check_violation';
    END IF;
    DELETE FROM parts WHERE scope_id = in_scope AND run_uid = of_run AND evidence = ANY(gone_parts);
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;
REVOKE ALL ON FUNCTION forget_parts(uuid, uuid, uuid[]) FROM PUBLIC;

-- A run without parts: the rest of what was said of it.
CREATE FUNCTION forget_run(in_scope uuid, of_run uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT may_forget(in_scope, of_run) OR EXISTS (SELECT 1 FROM parts WHERE scope_id = in_scope AND run_uid = of_run) THEN
        RAISE EXCEPTION 'the metadata of that run is still kept' USING ERRCODE = 'check_violation';
    END IF;
    DELETE FROM gaps WHERE scope_id = in_scope AND run_uid = of_run;
    DELETE FROM attempts WHERE scope_id = in_scope AND run_uid = of_run;
    DELETE FROM sessions WHERE scope_id = in_scope AND run_uid = of_run;
    DELETE FROM closings WHERE scope_id = in_scope AND run_uid = of_run;
    DELETE FROM runs WHERE scope_id = in_scope AND run_uid = of_run;
END $$;
REVOKE ALL ON FUNCTION forget_run(uuid, uuid) FROM PUBLIC;

-- Sets that nobody uses and no writer can remember. Whoever puts one meanwhile holds its row and is left alone.
CREATE FUNCTION forget_source_sets(in_scope uuid, most integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    unused bytea[];
    gone bigint;
BEGIN
    SELECT array_agg(s.set_id) INTO unused FROM (
        SELECT set_id FROM source_sets
        WHERE scope_id = in_scope AND put_at <= now() - interval '1 hour' AND set_id NOT IN (SELECT used FROM sets_used(in_scope) AS used)
        LIMIT most FOR UPDATE SKIP LOCKED) AS s;
    -- Looked at once more under the lock, by a statement that sees what was committed before it was had.
    DELETE FROM source_sets
    WHERE scope_id = in_scope AND set_id = ANY(unused) AND put_at <= now() - interval '1 hour'
      AND set_id NOT IN (SELECT used FROM sets_used(in_scope) AS used);
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;
REVOKE ALL ON FUNCTION forget_source_sets(uuid, integer) FROM PUBLIC;
CREATE FUNCTION sets_used(in_scope uuid) RETURNS SETOF bytea LANGUAGE sql STABLE AS $$
    SELECT source_set FROM parts WHERE scope_id = in_scope AND source_set IS NOT NULL AND state = 'stored'
    UNION
    SELECT source_set FROM parts WHERE scope_id = in_scope AND source_set IS NOT NULL AND state <> 'stored'
    UNION
    SELECT default_set FROM runs WHERE scope_id = in_scope AND default_set IS NOT NULL
$$;

-- Runs whose metadata may be over, oldest first.
CREATE INDEX IF NOT EXISTS runs_by_closed ON runs (scope_id, closed_at) WHERE state = 'closed';

-- Rights -------------------------------------------------------------------------------------------------------------

GRANT SELECT, INSERT, UPDATE (released_by, released_at) ON holds TO custody_service;
GRANT SELECT, UPDATE (ended_at, reason) ON holds TO custody_duties;
GRANT UPDATE (put_at) ON source_sets TO custody_service, custody_duties;
GRANT EXECUTE ON FUNCTION forget_parts(uuid, uuid, uuid[]), forget_run(uuid, uuid), forget_source_sets(uuid, integer)
    TO custody_duties;
