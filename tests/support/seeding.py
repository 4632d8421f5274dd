"""Many rows at once, made by the database itself, for plans and long lists. Their bodies cannot be opened."""

from uuid import UUID

import asyncpg

# Parts of run n: PARTS_A_RUN of them, two an exchange, a twentieth of a second apart.
PARTS_A_RUN = 100

_RUNS = """
INSERT INTO runs (scope_id, run_uid, run, mode, content, sampled, kinds, retain_until, owner_key, policy_version,
    labels, declared_at)
SELECT $1::uuid, md5($1::uuid::text || 'run' || r)::uuid, 'run-' || r, 'normal', 'allow', true,
    '{logical-request,observable-output}', b.span_start + interval '1 hour', 'key', 1,
    ARRAY['team=' || r % 2, 'rare=' || r / 4],
    now() - interval '20 days' + r * interval '1 second'
FROM generate_series(0, $2::int / 100 - 1) r,
    (SELECT span_start FROM buckets WHERE scope_id = $1 AND span_start > now() ORDER BY span_start LIMIT 1) b
"""
_ATTEMPTS = """
INSERT INTO attempts (scope_id, run_uid, exchange, attempt, dispatch, settlement, refs)
SELECT $1::uuid, md5($1::uuid::text || 'run' || r)::uuid, 'x' || e, 'a1', 'dispatched', 'completed',
    ARRAY[sha256(convert_to($1::uuid::text || 'ref' || r || '/' || e, 'UTF8'))]
FROM generate_series(0, $2::int / 100 - 1) r, generate_series(0, 49) e
"""
_SETS = """
INSERT INTO source_sets (scope_id, set_id, sources, versions)
SELECT $1::uuid, sha256(convert_to('set' || i, 'UTF8')), ARRAY['doc-' || i], ARRAY[1] FROM generate_series(0, 19) i
"""
_PARTS = """
INSERT INTO parts (scope_id, evidence, run_uid, exchange, attempt, kind, bucket_id, span_start, session, sequence,
    size_class, media_type, completeness, vantage, source_set, received_at, stored_at,
    commitment, meta_commitment, meta_opening)
SELECT $1::uuid, md5($1::uuid::text || 'part' || i)::uuid, md5($1::uuid::text || 'run' || i / 100)::uuid,
    'x' || i % 100 / 2, 'a1', CASE WHEN i % 2 = 0 THEN 'logical-request' ELSE 'observable-output' END,
    b.bucket_id, b.span_start, 'session', i % 100 + 1, 1024, 'application/json', 'complete', 'sdk',
    CASE WHEN i % 10 = 0 THEN sha256(convert_to('set' || i % 20, 'UTF8')) END,
    now() - interval '1 day' + i * interval '50 ms', now() - interval '1 day' + i * interval '50 ms',
    sha256('c'), sha256('m'), sha256('o')
FROM generate_series(0, $2::int - 1) i,
    (SELECT bucket_id, span_start FROM buckets WHERE scope_id = $1 AND span_start > now() ORDER BY span_start LIMIT 1) b
"""
_BODIES = """
INSERT INTO bodies (span_start, scope_id, evidence, bucket_id, wrapped, exact_bytes, ciphertext)
SELECT span_start, scope_id, evidence, bucket_id, decode(repeat('00', 60), 'hex'), 700, '\\x00'
FROM parts WHERE scope_id = $1
"""


async def seed(url: str, scope: UUID, parts: int) -> None:
    """Fill a scope that has its buckets with `parts` parts, a hundred a run, and let the planner know of them."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(_RUNS, scope, parts)
        await connection.execute(_ATTEMPTS, scope, parts)
        await connection.execute(_SETS, scope)
        await connection.execute(_PARTS, scope, parts)
        await connection.execute(_BODIES, scope)
        await connection.execute("ANALYZE")
    finally:
        await connection.close()
