-- A scope named `heavy` with everything at its limits, for tests of what pages weigh: ids of 128 characters that differ in their
-- last ones, and texts as long as they may be, of a character that grows when it is escaped. Its buckets must be there.

INSERT INTO runs (scope_id, run_uid, run, mode, content, sampled, kinds, retain_until, owner_key, policy_version, labels)
SELECT s.scope_id, md5('run' || i)::uuid, lpad(i::text, 128, 'x'), 'normal', 'allow', true,
    '{logical-request,observable-output}', b.span_start + interval '1 hour', 'key', 1,
    ARRAY(SELECT lpad(n::text, 64, 'n') || '=' || repeat('&', 256) FROM generate_series(1, 16) AS n)
FROM scopes s
JOIN LATERAL (SELECT span_start FROM buckets WHERE scope_id = s.scope_id AND span_start > now() ORDER BY span_start LIMIT 1) AS b ON true
CROSS JOIN generate_series(0, 199) AS i
WHERE s.name = 'heavy';

INSERT INTO parts (scope_id, evidence, run_uid, exchange, attempt, kind, bucket_id, span_start, session, sequence,
    size_class, media_type, completeness, vantage, received_at, stored_at, commitment, meta_commitment, meta_opening,
    state, purge_reason, purging_at)
SELECT s.scope_id, md5('part' || i)::uuid, md5('run0')::uuid, lpad((i / 4)::text, 128, 'x'), lpad((i / 2)::text, 128, 'x'),
    CASE WHEN i % 2 = 0 THEN 'logical-request' ELSE 'observable-output' END, b.bucket_id, b.span_start,
    lpad((i % 1000)::text, 128, 'x'), i / 1000 * 2 + 1, 4096, 'application/json', 'complete', 'sdk',
    now() - interval '3 hours' + i * interval '1 s', now(), sha256('c'), sha256('m'), sha256('o'),
    CASE WHEN i % 7 = 0 THEN 'purging' ELSE 'stored' END, CASE WHEN i % 7 = 0 THEN 'erased' END,
    CASE WHEN i % 7 = 0 THEN now() END
FROM scopes s
JOIN LATERAL (
    SELECT bucket_id, span_start FROM buckets WHERE scope_id = s.scope_id AND span_start > now() ORDER BY span_start LIMIT 1
) AS b ON true
CROSS JOIN generate_series(0, 9999) AS i
WHERE s.name = 'heavy';

INSERT INTO gaps (scope_id, run_uid, gap_id, said_by, reason, session, sequences, exchange, attempt, kind, first_at, last_at)
SELECT s.scope_id, md5('run0')::uuid, uuidv7(), 'client', (ARRAY['client_transport', 'client_queue_full'])[1 + i % 2],
    CASE WHEN i % 4 <> 0 THEN lpad(i::text, 128, 'x') END,
    CASE WHEN i % 4 <> 0 THEN
        (SELECT range_agg(int8range(n * 2, n * 2, '[]')) FROM generate_series(1, 64) AS n)
    END,
    CASE WHEN i % 4 = 0 THEN lpad(i::text, 128, 'x') END, CASE WHEN i % 4 = 0 THEN lpad(i::text, 128, 'x') END,
    CASE WHEN i % 4 = 0 THEN 'logical-request' END, now(), now()
FROM scopes s, generate_series(0, 999) AS i WHERE s.name = 'heavy';

INSERT INTO sessions (scope_id, run_uid, session, announced)
SELECT s.scope_id, md5('run0')::uuid, lpad(i::text, 128, 'x'), 200 FROM scopes s, generate_series(0, 255) AS i WHERE s.name = 'heavy';

INSERT INTO sources (scope_id, source, source_uid, latest, audience, revoked_at)
SELECT s.scope_id, lpad(i::text, 128, 'x'), gen_random_uuid(), 300,
    ARRAY(SELECT lpad(n::text, 128, 'x') FROM generate_series(1, 16) AS n), now()
FROM scopes s, generate_series(0, 199) AS i WHERE s.name = 'heavy';

INSERT INTO source_versions (scope_id, source, version, withdrawn_at)
SELECT s.scope_id, lpad('0', 128, 'x'), i, now() FROM scopes s, generate_series(1, 300) AS i WHERE s.name = 'heavy';

INSERT INTO holds (scope_id, hold_id, reach, run_uid, reason, answer, placed_by, released_by, released_at)
SELECT s.scope_id, uuidv7(), 'run', md5('run' || i)::uuid, repeat('&', 500), 'placed', 'key', 'key', now()
FROM scopes s, generate_series(0, 199) AS i WHERE s.name = 'heavy';

INSERT INTO erasures (scope_id, erasure_id, target_kind, run_uid, state, waits_for, requested_by)
SELECT s.scope_id, uuidv7(), 'run', md5('run' || i)::uuid, 'deferred', 'hold', 'key'
FROM scopes s, generate_series(0, 199) AS i WHERE s.name = 'heavy';

INSERT INTO operator_actions (scope_id, action_id, key_id, action, target, purpose)
SELECT s.scope_id, uuidv7(), lpad(i::text, 16, '0'), 'source_version_added', lpad(i::text, 128, 'x'), repeat('&', 200)
FROM (SELECT scope_id FROM scopes WHERE name = 'heavy' UNION ALL VALUES ('00000000-0000-0000-0000-000000000000'::uuid)) AS s,
    generate_series(0, 199) AS i;

INSERT INTO accesses (scope_id, access_id, key_id, role, evidence, purpose, outcome)
SELECT s.scope_id, uuidv7(), lpad(i::text, 16, '0'), 'reviewer', md5('part' || i % 2)::uuid, repeat('&', 200), 'read'
FROM scopes s, generate_series(0, 399) AS i WHERE s.name = 'heavy';

INSERT INTO scopes (scope_id, name, policy, metadata_retention_s, retention_max_s)
SELECT gen_random_uuid(), lpad(i::text, 128, 'x'), s.policy, s.metadata_retention_s, s.retention_max_s
FROM scopes s, generate_series(1, 300) AS i WHERE s.name = 'heavy';

INSERT INTO api_keys (key_id, scope_id, role, digests, clearances, note, created_by, expires_at, confirmed_at)
SELECT left(md5('key' || i || s.name), 16), s.scope_id, 'operator', ARRAY[sha256('x')],
    ARRAY(SELECT lpad(n::text, 128, 'x') FROM generate_series(1, 64) AS n), repeat('&', 200), 'key',
    now() + interval '9 days', CASE WHEN i % 2 = 0 THEN now() END
FROM (SELECT scope_id, name FROM scopes WHERE name = 'heavy' UNION ALL VALUES (NULL::uuid, '')) AS s, generate_series(1, 300) AS i;

INSERT INTO exports (scope_id, export_id, requested_by, purpose, evidence, runs, anchors, tree_size)
SELECT k.scope_id, uuidv7(), k.key_id, repeat('&', 200), '{}', '{}', array_fill(999999999999999::bigint, ARRAY[16]), 0
FROM api_keys k, generate_series(1, 200) AS i WHERE k.scope_id IS NOT NULL AND k.created_by = 'command-line';

ANALYZE;
