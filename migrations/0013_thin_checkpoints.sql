-- Checkpoints that nothing needs any more go: a log that grows all the time had one more row each second, for ever. Runs before
-- the code that needs it; code of before keeps them all. Locks: none; nothing is read before the duty asks for it.

-- What stays: the last one that was published, all of two days (an export may be fetched under its own for one), and of what
-- is older the last of each hour, against which the tree is held by `verify`. While the log is stopped all stay: they tell what was
-- signed. With the owner's right, so that neither service nor duties may take away a checkpoint that they choose.
CREATE FUNCTION thin_checkpoints(most integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    gone bigint;
BEGIN
    DELETE FROM log_checkpoints
    WHERE size IN (
        SELECT c.size
        FROM (SELECT size, signed_at, lead(signed_at) OVER (ORDER BY size) AS next_at FROM log_checkpoints) AS c
        WHERE c.signed_at < now() - interval '2 days'
          AND date_trunc('hour', c.signed_at, 'UTC') = date_trunc('hour', c.next_at, 'UTC')
          AND c.size < (SELECT published_size FROM log_state WHERE stop IS NULL)
        LIMIT most);
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;
REVOKE ALL ON FUNCTION thin_checkpoints(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION thin_checkpoints(integer) TO custody_duties;
