-- Facts of toolchains, the lens's: kept as long as their run's content, and deleted with it. Runs before the code that needs it;
-- code of before takes none. Locks: two new tables, and a trigger on `runs`, whose writers wait a moment for that.

-- Small, typed, without content: ids, closed words and numbers, as JSON of format 1 in `body`; the columns beside it are what is asked
-- by. `fact` is its teller's name for it, once in a run: told again, the first stays. `fact_uid` is minted when it is told, in the
-- order of time; `at` is the teller's clock, is shown, and decides nothing.
CREATE TABLE facts (
    scope_id  uuid        NOT NULL,
    run_uid   uuid        NOT NULL,
    fact      text        COLLATE "C" NOT NULL,
    fact_uid  uuid        NOT NULL,
    type      text        NOT NULL,
    action    text        COLLATE "C",
    exchange  text        COLLATE "C",
    at        timestamptz NOT NULL,
    body      bytea       NOT NULL,
    CONSTRAINT facts_pkey PRIMARY KEY (scope_id, run_uid, fact),
    CONSTRAINT facts_type_closed CHECK (type IN ('stage', 'occurrence', 'surface', 'coverage', 'delivery')),
    CONSTRAINT facts_body_bounded CHECK (length(body) BETWEEN 1 AND 1024)
);
CREATE INDEX facts_by_type ON facts (scope_id, run_uid, type, fact_uid);
CREATE INDEX facts_by_action ON facts (scope_id, run_uid, action, fact_uid) WHERE action IS NOT NULL;

-- Runs that have facts: how many, whether one was refused because there are as many as there may be, and when they end. Writers of
-- one run's facts wait for each other here, since they hold the run's own row together.
CREATE TABLE fact_runs (
    scope_id  uuid        NOT NULL,
    run_uid   uuid        NOT NULL,
    kept      integer     NOT NULL DEFAULT 0,
    is_full   boolean     NOT NULL DEFAULT false,
    ends_at   timestamptz NOT NULL,
    CONSTRAINT fact_runs_pkey PRIMARY KEY (scope_id, run_uid),
    CONSTRAINT fact_runs_run FOREIGN KEY (scope_id, run_uid) REFERENCES runs (scope_id, run_uid),
    CONSTRAINT fact_runs_not_negative CHECK (kept >= 0)
);
CREATE INDEX fact_runs_by_end ON fact_runs (scope_id, ends_at);

-- Whoever shortens or erases a run, by whatever way, thereby says when its facts end.
CREATE FUNCTION end_facts_with_run() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE fact_runs SET ends_at = CASE WHEN NEW.erased THEN '-infinity' ELSE NEW.retain_until END
    WHERE scope_id = NEW.scope_id AND run_uid = NEW.run_uid;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION end_facts_with_run() FROM PUBLIC;
CREATE TRIGGER runs_end_facts AFTER UPDATE OF retain_until, erased ON runs FOR EACH ROW
    WHEN (OLD.retain_until IS DISTINCT FROM NEW.retain_until OR OLD.erased IS DISTINCT FROM NEW.erased)
    EXECUTE FUNCTION end_facts_with_run();

-- The facts of a run that is locked, where they are over and nothing holds them: done with the owner's right, so that neither service nor
-- duties may delete any by themselves. While a restore replays what was purged, those of the runs that it is about are over too.
-- Null where they stay.
CREATE FUNCTION end_facts(in_scope uuid, of_run uuid) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    gone bigint;
BEGIN
    IF is_held(in_scope, of_run, NULL) OR NOT EXISTS (
        SELECT 1 FROM runs r
        WHERE r.scope_id = in_scope AND r.run_uid = of_run
          AND (r.erased OR r.retain_until <= now() OR (SELECT stop FROM log_state) = 'restoring')) THEN
        RETURN NULL;
    END IF;
    DELETE FROM facts WHERE scope_id = in_scope AND run_uid = of_run;
    GET DIAGNOSTICS gone = ROW_COUNT;
    DELETE FROM fact_runs WHERE scope_id = in_scope AND run_uid = of_run;
    RETURN gone;
END $$;
REVOKE ALL ON FUNCTION end_facts(uuid, uuid) FROM PUBLIC;

-- What of an erasure is left in facts: it is not purged before they are gone.
CREATE FUNCTION erasure_facts(e erasures) RETURNS TABLE (scope_id uuid, run_uid uuid) LANGUAGE sql STABLE AS $$
    SELECT f.scope_id, f.run_uid
    FROM fact_runs f
    WHERE e.target_kind = 'run' AND f.scope_id = e.scope_id AND f.run_uid = e.run_uid
    UNION ALL
    SELECT f.scope_id, f.run_uid
    FROM runs r JOIN fact_runs f ON f.scope_id = r.scope_id AND f.run_uid = r.run_uid
    WHERE e.target_kind = 'subject' AND r.scope_id = e.scope_id AND r.subject = e.subject AND r.erased
$$;

-- As in 0008, and with facts, of which none should be left by then.
CREATE OR REPLACE FUNCTION forget_run(in_scope uuid, of_run uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT may_forget(in_scope, of_run) OR EXISTS (SELECT 1 FROM parts WHERE scope_id = in_scope AND run_uid = of_run) THEN
        RAISE EXCEPTION 'the metadata of that run is still kept' USING ERRCODE = 'check_violation';
    END IF;
    DELETE FROM gaps WHERE scope_id = in_scope AND run_uid = of_run;
    DELETE FROM attempts WHERE scope_id = in_scope AND run_uid = of_run;
    DELETE FROM facts WHERE scope_id = in_scope AND run_uid = of_run;
    DELETE FROM fact_runs WHERE scope_id = in_scope AND run_uid = of_run;
    DELETE FROM sessions WHERE scope_id = in_scope AND run_uid = of_run;
    DELETE FROM closings WHERE scope_id = in_scope AND run_uid = of_run;
    DELETE FROM runs WHERE scope_id = in_scope AND run_uid = of_run;
END $$;

GRANT SELECT, INSERT ON facts TO custody_service;
GRANT SELECT, INSERT, UPDATE (kept, is_full) ON fact_runs TO custody_service;
GRANT SELECT ON facts, fact_runs TO custody_duties;
GRANT EXECUTE ON FUNCTION end_facts(uuid, uuid) TO custody_duties;
