"""Rows made by SQL, as the service would have written them: a million parts take a minute, not an hour."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import asyncpg

PARTS_A_RUN: Final = 128
# Runs that share a label: few enough that a page looks each of them up.
RUNS_A_LABEL: Final = 20

# Runs declared in the order of time, over the last ten days, kept for between one and sixty days more.
_RUNS: Final = """
INSERT INTO runs (scope_id, run_uid, run, mode, content, sampled, kinds, retain_until, owner_key, policy_version,
    labels, declared_at)
SELECT $1::uuid, md5('run ' || i)::uuid, 'run-' || i, 'normal', 'allow', true, '{logical-request,observable-output}',
    now() + make_interval(days => (1 + i % 60)::integer), 'bench', 1, ARRAY['batch=' || i / $3::bigint],
    now() - interval '10 days' * ($2 - i) / $2
FROM generate_series(0, $2::bigint - 1) AS i
"""

_PARTS: Final = """
INSERT INTO parts (scope_id, evidence, run_uid, exchange, attempt, kind, bucket_id, span_start, session, sequence,
    size_class, media_type, completeness, vantage, received_at, stored_at, commitment, meta_commitment, meta_opening)
SELECT r.scope_id, uuidv7(r.declared_at - now()), r.run_uid, 'call-' || i / 2, 'physical-1',
    CASE WHEN i % 2 = 0 THEN 'logical-request' ELSE 'observable-output' END, b.bucket_id, b.span_start, 'session',
    i + 1, 4096, 'application/json', 'complete', 'sdk', r.declared_at, r.declared_at + i / 16 * interval '1 ms', d, d, d
FROM runs r
JOIN buckets b ON b.scope_id = r.scope_id AND b.span_start <= r.retain_until AND b.span_end > r.retain_until
CROSS JOIN generate_series(0, $2::integer - 1) AS i
CROSS JOIN LATERAL (SELECT sha256(convert_to(r.run || i, 'UTF8')) AS d) AS digests
WHERE r.scope_id = $1
ORDER BY r.declared_at, i
"""

_BODIES: Final = """
INSERT INTO bodies (span_start, scope_id, evidence, bucket_id, wrapped, exact_bytes, ciphertext)
SELECT span_start, scope_id, evidence, bucket_id, substring(commitment || commitment FOR 60), 3000, commitment
FROM parts WHERE scope_id = $1 ORDER BY span_start, evidence
"""

_ATTEMPTS: Final = """
INSERT INTO attempts (scope_id, run_uid, exchange, attempt, dispatch, settlement)
SELECT scope_id, run_uid, exchange, attempt, 'dispatched', 'completed'
FROM parts WHERE scope_id = $1 AND kind = 'logical-request'
"""

# One closed run of $3 observations, requests and outputs, of four sessions whose last numbers were told; a hundredth is
# missing.
_ONE_RUN: Final = """
INSERT INTO runs (scope_id, run_uid, run, mode, content, sampled, kinds, retain_until, owner_key, policy_version,
    labels, declared_at, state, closing_at, closed_at)
VALUES ($1::uuid, md5('run ' || $2)::uuid, $2, 'normal', 'allow', true, '{logical-request,observable-output}',
    now() + interval '20 days', 'bench', 1, '{batch=one}', now() - interval '2 hours', 'closed', now(), now())
"""

_SESSIONS_OF_RUN: Final = """
INSERT INTO sessions (scope_id, run_uid, session, announced)
SELECT $1::uuid, md5('run ' || $2)::uuid, 'session-' || i, $3::integer / 4 FROM generate_series(0, 3) AS i
"""

_PARTS_OF_RUN: Final = """
INSERT INTO parts (scope_id, evidence, run_uid, exchange, attempt, kind, bucket_id, span_start, session, sequence,
    size_class, media_type, completeness, vantage, received_at, stored_at, commitment, meta_commitment, meta_opening)
SELECT r.scope_id, uuidv7(), r.run_uid, 'call-' || i / 2, 'physical-1',
    CASE WHEN i % 2 = 0 THEN 'logical-request' ELSE 'observable-output' END, b.bucket_id, b.span_start,
    'session-' || i % 4, i / 4 + 1, 4096, 'application/json', 'complete', 'sdk', r.declared_at + i * interval '500 ms',
    r.declared_at + i * interval '500 ms', d, d, d
FROM runs r
JOIN buckets b ON b.scope_id = r.scope_id AND b.span_start <= r.retain_until AND b.span_end > r.retain_until
CROSS JOIN generate_series(0, $3::integer - 1) AS i
CROSS JOIN LATERAL (SELECT sha256(convert_to(r.run || i, 'UTF8')) AS d) AS digests
WHERE r.scope_id = $1 AND r.run = $2 AND i % 100 <> 99
"""

_GAPS_OF_RUN: Final = """
INSERT INTO gaps (scope_id, run_uid, gap_id, said_by, reason, session, sequences, first_at, last_at)
SELECT $1::uuid, md5('run ' || $2)::uuid, uuidv7(), 'client', 'client_queue_full', 'session-3',
    range_agg(int8range(i / 4 + 1, i / 4 + 1, '[]')), now(), now()
FROM generate_series(0, $3::integer - 1) AS i WHERE i % 100 = 99
"""

_ATTEMPTS_OF_RUN: Final = """
INSERT INTO attempts (scope_id, run_uid, exchange, attempt, dispatch, settlement, first_at)
SELECT p.scope_id, p.run_uid, p.exchange, p.attempt, 'dispatched', 'completed', p.received_at
FROM parts p JOIN runs r USING (scope_id, run_uid)
WHERE p.scope_id = $1 AND r.run = $2 AND p.kind = 'logical-request'
"""

_EXPIRING_PARTS: Final = """
INSERT INTO parts (scope_id, evidence, run_uid, exchange, attempt, kind, bucket_id, span_start, size_class, media_type,
    completeness, vantage, received_at, stored_at, commitment, meta_commitment, meta_opening)
SELECT $1::uuid, uuidv7(), $2::uuid, 'call-' || i, 'physical-1', 'logical-request', $2::uuid, $3::timestamptz, 4096,
    'application/json', 'complete', 'sdk', $3, $3, d, d, d
FROM generate_series(1, $4::bigint) AS i
CROSS JOIN LATERAL (SELECT sha256(convert_to(i::text, 'UTF8')) AS d) AS digests
"""

# 4 KiB that do not compress, as ciphertexts do not.
_EXPIRING_BODIES: Final = """
INSERT INTO bodies (span_start, scope_id, evidence, bucket_id, wrapped, exact_bytes, ciphertext)
SELECT span_start, scope_id, evidence, bucket_id, substring(commitment || commitment FOR 60), 4000,
    decode((SELECT string_agg(md5(p.evidence::text || j), '') FROM generate_series(1, 8) AS j), 'hex')
        || decode(repeat(md5(p.evidence::text), 248), 'hex')
FROM parts p WHERE scope_id = $1 AND bucket_id = $2
"""

_BUCKET: Final = """
INSERT INTO buckets (scope_id, bucket_id, span_start, span_end) VALUES ($1, $2, $3, $4)
"""


async def seed_parts(connection: asyncpg.Connection, scope: UUID, parts: int) -> int:
    """Make that many parts (rounded to whole runs), with bodies and attempts; return how many runs they have."""
    runs = max(1, parts // PARTS_A_RUN)
    await connection.execute(_RUNS, scope, runs, RUNS_A_LABEL)
    await connection.execute(_PARTS, scope, PARTS_A_RUN)
    await connection.execute(_BODIES, scope)
    await connection.execute(_ATTEMPTS, scope)
    await connection.execute("VACUUM (ANALYZE) runs, parts, bodies, attempts, buckets")
    return runs


async def seed_run(connection: asyncpg.Connection, scope: UUID, run: str, numbers: int) -> None:
    """Make one closed run of so many observations, of which a hundredth is missing; without bodies."""
    await connection.execute(_ONE_RUN, scope, run)
    for statement in (_SESSIONS_OF_RUN, _PARTS_OF_RUN, _GAPS_OF_RUN):
        await connection.execute(statement, scope, run, numbers)
    await connection.execute(_ATTEMPTS_OF_RUN, scope, run)
    await connection.execute("VACUUM (ANALYZE) runs, parts, attempts, sessions, gaps")


async def seed_expiring(
    connection: asyncpg.Connection, scope: UUID, bucket: UUID, span_start: datetime, parts: int
) -> None:
    """Fill a bucket whose span is over; its partition must be there."""
    await connection.execute(_BUCKET, scope, bucket, span_start, span_start + timedelta(days=1))
    await connection.execute(_EXPIRING_PARTS, scope, bucket, span_start, parts)
    await connection.execute(_EXPIRING_BODIES, scope, bucket)
    await connection.execute("ANALYZE parts, bodies")
    await connection.execute("CHECKPOINT")
