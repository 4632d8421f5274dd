-- How deep the queue was, minute by minute, so that operators see more than the present; and the duties may remove sessions of the
-- console that ended. Runs before the code that needs it; code of before does not look at it. Locks: none, a new table.

-- One row a minute at most, for seven days. Numbers of the whole store, of no scope, run or part; `bytes_class` is the sum of what waits
-- as the next power of two, at least 1 MiB (0: nothing waits), so that it tells nothing of any one part. `counts` is what the queue
-- had counted by then, by words of ours, since it began; `queue` says which one that was, so that counts of two are not compared.
-- Null: one of its shards had not begun, or was just lost.
CREATE TABLE queue_depths (
    minute      timestamptz      NOT NULL,
    parts       bigint           NOT NULL,
    notes       bigint           NOT NULL,
    bytes_class bigint           NOT NULL,
    oldest_s    double precision NOT NULL,
    counts      jsonb            NOT NULL,
    queue       text,
    CONSTRAINT queue_depths_pkey PRIMARY KEY (minute)
);

GRANT SELECT ON queue_depths TO custody_service;
GRANT SELECT, INSERT, DELETE ON queue_depths TO custody_duties;

-- Of sessions the duties see what tells them that one is over, and no more. From now on they remove them, and not whoever signs in.
GRANT SELECT (digest, seen_at, ends_at), DELETE ON console_sessions TO custody_duties;
