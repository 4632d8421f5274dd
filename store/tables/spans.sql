-- name: attached the partitions of `bodies` with their bounds; `leaving` is one whose detaching was interrupted; the one of
-- held bodies is no span's
SELECT c.relname AS name,
       substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM \(''([^'']+)''\)')::timestamptz AS span_start,
       substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([^'']+)''\)')::timestamptz AS span_end,
       i.inhdetachpending AS leaving
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'bodies'::regclass AND c.relname <> 'bodies_253370764800'
ORDER BY span_start

-- name: stray tables of the schema that are no partition: detached, and not dropped yet
SELECT c.relname AS name
FROM pg_class c
WHERE c.relnamespace = 'spans'::regnamespace AND c.relkind = 'r'
  AND NOT EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhrelid = c.oid)

-- name: now the database's time
SELECT now()

-- name: wait_shortly whoever waits for a lock on a table makes everybody behind it wait too
SELECT set_config('lock_timeout', '200ms', $1)

-- name: size what a partition takes on the disk, with its index and its long values; null where there is none
SELECT pg_total_relation_size(to_regclass($1::text))
