-- How much of each run is there and missing, counted once when it ends: `/v1/completeness` read every part of the days that it was
-- asked for. Runs before the code that needs it; code of before counts them all. Locks: two empty columns.

-- `counts`: parts that are stored (`stored`), observations that are missing with no number twice (``), and missing ones by reason.
-- Null: a run that is not closed, or was closed by the version before; those are counted when somebody asks. What is told later
-- than `counted_at` makes it be counted again. Numbers by words of ours; what is evidence is the closing's record.
ALTER TABLE runs ADD COLUMN counts jsonb, ADD COLUMN counted_at timestamptz;

CREATE FUNCTION count_run(in_scope uuid, of_run uuid) RETURNS jsonb LANGUAGE sql STABLE AS $$
    WITH there AS (
        SELECT g.session, g.reason, g.exchange, g.sequence, g.sequences, g.merged, g.times, g.superseded_by
        FROM gaps g WHERE g.scope_id = in_scope AND g.run_uid = of_run
    ), stored AS (
        SELECT p.session, range_agg(int8range(p.sequence, p.sequence, '[]')) AS numbers
        FROM parts p
        WHERE p.scope_id = in_scope AND p.run_uid = of_run AND p.sequence IS NOT NULL
          AND EXISTS (SELECT 1 FROM there WHERE there.session = p.session AND there.sequences IS NOT NULL)
        GROUP BY p.session
    ), numbers AS (
        SELECT there.session, there.reason, there.sequences - coalesce(stored.numbers, '{}') AS numbers
        FROM there LEFT JOIN stored ON stored.session = there.session
        WHERE there.sequences IS NOT NULL
    ), whole AS (
        SELECT '' AS reason, range_agg(numbers) AS numbers FROM numbers GROUP BY session
        UNION ALL
        SELECT reason, range_agg(numbers) FROM numbers GROUP BY session, reason
    ), plain AS (
        SELECT reason,
               CASE WHEN exchange IS NULL THEN merged WHEN sequence IS NULL AND superseded_by IS NULL THEN times ELSE 0 END AS times
        FROM there
    ), counted AS (
        SELECT reason, (SELECT coalesce(sum(upper(r) - lower(r)), 0) FROM unnest(numbers) AS r) AS count FROM whole
        UNION ALL SELECT reason, times FROM plain
        UNION ALL SELECT '', times FROM plain
        UNION ALL SELECT 'stored', count(*) FROM parts p WHERE p.scope_id = in_scope AND p.run_uid = of_run
    )
    SELECT coalesce(jsonb_object_agg(c.reason, c.count), '{}')
    FROM (SELECT reason, sum(count)::bigint AS count FROM counted GROUP BY reason HAVING sum(count) > 0) AS c
$$;
