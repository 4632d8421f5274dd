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

-- Facts of its tools, as many as a run may have and as long as each may be: an action with most of them, and others.
INSERT INTO facts (scope_id, run_uid, fact, fact_uid, type, action, exchange, at, body)
SELECT s.scope_id, md5('run0')::uuid, f.body ->> 'fact', uuidv7(), f.body ->> 'type', f.body ->> 'action', f.body ->> 'exchange',
    now(), convert_to(f.body::text, 'UTF8')
FROM scopes s
CROSS JOIN generate_series(0, 4095) AS i
CROSS JOIN LATERAL (
    SELECT jsonb_build_object('fact', lpad(i::text, 128, 'f'), 'at', now()) || CASE
        WHEN i < 1000 THEN jsonb_build_object('type', 'stage', 'action', lpad('0', 128, 'a'), 'tool', repeat('&', 128),
            'call_id', repeat('&', 128), 'stage', 'execution', 'status', 'failed', 'execution', i + 1,
            'result_version', i + 1, 'code', lpad('', 64, 'c'), 'duration_ms', 9007199254740991)
        WHEN i < 1500 THEN jsonb_build_object('type', 'stage', 'action', lpad('0', 128, 'a'), 'tool', repeat('&', 128),
            'stage', 'projection', 'status', 'projected', 'result_version', i, 'view', jsonb_build_object('form', 'partial',
            'unit', 'rows', 'start', i, 'stop', 9007199254740990, 'total', 9007199254740991, 'source_whole', false))
        WHEN i < 2500 THEN jsonb_build_object('type', 'occurrence', 'action', lpad('0', 128, 'a'),
            'exchange', lpad((i / 20)::text, 128, 'x'), 'attempt', lpad((i / 20 * 2)::text, 128, 'x'), 'request', i / 20,
            'position', i, 'link', 'bound', 'result_version', i - 1000, 'view', jsonb_build_object('form', 'partial',
            'unit', 'rows', 'start', i, 'stop', 9007199254740990, 'total', 9007199254740991))
        WHEN i < 3000 THEN jsonb_build_object('type', 'stage', 'action', lpad(i::text, 128, 'a'), 'tool', repeat('&', 128),
            'call_id', repeat('&', 128), 'stage', 'execution', 'status', 'timed_out')
        WHEN i < 3400 THEN jsonb_build_object('type', 'surface', 'exchange', lpad((i % 100)::text, 128, 'x'),
            'attempt', lpad((i % 100 * 2)::text, 128, 'x'), 'check', 'final', 'verdict', 'mismatch', 'tools', 99, 'more', 999,
            'differences', jsonb_build_array(jsonb_build_object('change', 'renamed', 'tool', repeat('&', 128), 'now',
            repeat('&', 127))))
        WHEN i < 3800 THEN jsonb_build_object('type', 'coverage', 'file', lpad(i::text, 128, 'f'), 'frontier', 9007199254740991,
            'whole', false, 'size', 9007199254740991, 'action', lpad('0', 128, 'a'), 'more', 99, 'one_version', false,
            'ranges', (SELECT jsonb_agg(jsonb_build_array(n * 100000000000000, n * 100000000000000 + 7)) FROM generate_series(1, 8) AS n),
            'deviations', '["skipped", "self_computed", "started_in_the_middle"]'::jsonb)
        ELSE jsonb_build_object('type', 'delivery', 'item', lpad(i::text, 128, 'd'), 'kind', 'command', 'state', 'failed',
            'code', lpad('', 64, 'c'), 'exit_code', -999999999, 'size', 9007199254740991, 'action', lpad('0', 128, 'a'))
    END AS body
) AS f
WHERE s.name = 'heavy';

INSERT INTO fact_runs (scope_id, run_uid, kept, is_full, ends_at)
SELECT r.scope_id, r.run_uid, 4096, true, r.retain_until FROM runs r JOIN scopes s USING (scope_id)
WHERE s.name = 'heavy' AND r.run_uid = md5('run0')::uuid;

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
