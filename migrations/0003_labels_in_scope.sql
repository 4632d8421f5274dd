-- A label is looked for among the runs of one scope. The index of 0001 held the labels of all scopes together: how long a
-- question took told a tenant whether others use that label, and the more of them did, the longer it took.
--
-- Runs before the code that needs it; code of before finds labels without an index until it is replaced. Locks: writers of
-- `runs` wait while the index is made; on a large table make function and index (CONCURRENTLY) by hand before.

-- The scope stands before each label, so that one entry of the index is one label of one scope.
CREATE OR REPLACE FUNCTION labels_in_scope(scope uuid, labels text[]) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT coalesce(array_agg(scope::text || ' ' || label), '{}') FROM unnest(labels) AS label
$$;
CREATE INDEX IF NOT EXISTS runs_by_label_in_scope ON runs USING gin (labels_in_scope(scope_id, labels));
DROP INDEX runs_by_label;
