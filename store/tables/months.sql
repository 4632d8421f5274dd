-- name: ensure the partitions of append-only tables for the month of an instant
SELECT ensure_month(($1::timestamptz AT TIME ZONE 'UTC')::date)

-- name: past months whose rows no scope keeps any more; the owner's function refuses anything younger
SELECT m.month
FROM (SELECT to_date(right(c.relname, 7), 'YYYY_MM') AS month
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent = 'accesses'::regclass) AS m
WHERE (m.month + interval '1 month') AT TIME ZONE 'UTC'
    <= now() - make_interval(secs => (SELECT coalesce(max(metadata_retention_s), 34560000) FROM scopes))
ORDER BY m.month

-- name: drop one month of append-only tables
SELECT drop_month($1::date)
