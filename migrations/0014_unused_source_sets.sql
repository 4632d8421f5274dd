-- Sets of sources that nobody uses, found without reading every part of their scope each hour. Runs before the code that needs it;
-- code of before works on with the function of 0008, which stays. Locks: writers of `parts` and `runs` wait while the indexes are
-- made; on large tables make them CONCURRENTLY by hand before, under these names.

-- Parts that are there have an index already (`parts_by_source`). These are those on their way out or gone; storing a part
-- does not touch it.
CREATE INDEX IF NOT EXISTS parts_gone_by_source ON parts (scope_id, source_set) WHERE source_set IS NOT NULL AND state <> 'stored';
CREATE INDEX IF NOT EXISTS runs_by_default_set ON runs (scope_id, default_set) WHERE default_set IS NOT NULL;

CREATE FUNCTION set_is_used(in_scope uuid, of_set bytea) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT 1 FROM parts p WHERE p.scope_id = in_scope AND p.source_set = of_set AND p.state = 'stored')
        OR EXISTS (SELECT 1 FROM parts p WHERE p.scope_id = in_scope AND p.source_set = of_set AND p.state <> 'stored')
        OR EXISTS (SELECT 1 FROM runs r WHERE r.scope_id = in_scope AND r.default_set = of_set)
$$;

-- Of so many sets of a scope beyond one, in the order of their ids, those go that nobody uses and no writer can remember; `last` is
-- the last that was looked at, null where there was none. Whoever puts one meanwhile holds its row and is left alone. Without
-- whole reads: where a few sets are used by nearly all parts, a planner finds those the quickest way to one that uses any set.
CREATE FUNCTION forget_source_sets(in_scope uuid, beyond bytea, most integer, OUT gone bigint, OUT seen bigint, OUT last bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    page bytea[];
    unused bytea[];
BEGIN
    SELECT coalesce(array_agg(s.set_id ORDER BY s.set_id), '{}') INTO page
    FROM (SELECT set_id FROM source_sets WHERE scope_id = in_scope AND set_id > beyond ORDER BY set_id LIMIT most) AS s;
    seen := cardinality(page);
    last := page[seen];
    SELECT array_agg(s.set_id) INTO unused FROM (
        SELECT set_id FROM source_sets
        WHERE scope_id = in_scope AND set_id = ANY(page) AND put_at <= now() - interval '1 hour' AND NOT set_is_used(in_scope, set_id)
        FOR UPDATE SKIP LOCKED) AS s;
    -- Looked at once more under the lock, by a statement that sees what was committed before it was had.
    DELETE FROM source_sets
    WHERE scope_id = in_scope AND set_id = ANY(unused) AND put_at <= now() - interval '1 hour' AND NOT set_is_used(in_scope, set_id);
    GET DIAGNOSTICS gone = ROW_COUNT;
END $$;
REVOKE ALL ON FUNCTION forget_source_sets(uuid, bytea, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION forget_source_sets(uuid, bytea, integer) TO custody_duties;
