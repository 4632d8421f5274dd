"""What the tests of duties need around them: pools in each role, a keyring of files, scopes and rows made directly."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg

from store import ids
from store.clock import monotonic
from store.db import DUTIES_ROLE, Database
from store.key_directory import FileKeyDirectory
from store.keyring import Keyring


@asynccontextmanager
async def duties_database(url: str) -> AsyncIterator[Database]:
    database = await Database.open(url, role=DUTIES_ROLE, size=8)
    try:
        yield database
    finally:
        await database.close()


def keyring_of(keys_dir: Path) -> Keyring:
    keyring = Keyring(FileKeyDirectory(keys_dir), monotonic)
    keyring.create_token_keys()
    return keyring


async def scalar(url: str, sql: str, *arguments: Any) -> Any:
    """One value, read as the owner."""
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(sql, *arguments)
    finally:
        await connection.close()


async def execute(url: str, sql: str, *arguments: Any) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(sql, *arguments)
    finally:
        await connection.close()


async def new_scope(
    url: str, *, longest: timedelta = timedelta(days=3), policy: dict[str, Any] | None = None
) -> UUID:
    scope = ids.new_scope_id()
    seconds = int(longest.total_seconds())
    await execute(
        url,
        "INSERT INTO scopes (scope_id, name, policy, metadata_retention_s, retention_max_s)"
        " VALUES ($1, $2, $3, 34560000, $4)",
        scope,
        f"s-{scope.hex[-12:]}",
        json.dumps(policy or {}),
        seconds,
    )
    return scope


async def new_run(
    url: str, scope: UUID, *, retain_until: datetime, state: str = "open", run: str | None = None
) -> UUID:
    uid = ids.new_run_uid()
    await execute(
        url,
        "INSERT INTO runs (scope_id, run_uid, run, mode, content, sampled, kinds, retain_until, owner_key,"
        " policy_version)"
        " VALUES ($1, $2, $3, 'normal', 'allow', true, ARRAY['logical-request', 'observable-output'], $4, 'k', 1)",
        scope,
        uid,
        run or f"r-{uid.hex[-8:]}",
        retain_until,
    )
    if state == "closing":
        await execute(url, "UPDATE runs SET state = 'closing', closing_at = now() WHERE run_uid = $1", uid)
    return uid


async def new_parts(
    url: str,
    scope: UUID,
    run: UUID,
    count: int = 1,
    *,
    instant: datetime | None = None,
    source_set: bytes | None = None,
    session: str | None = None,
    first: int = 1,
) -> list[UUID]:
    """Parts with bodies, as a writer leaves them, in the scope's bucket for `instant` (default: the run's end)."""
    connection = await asyncpg.connect(url)
    try:
        if instant is None:
            instant = await connection.fetchval("SELECT retain_until FROM runs WHERE run_uid = $1", run)
        bucket, start = await connection.fetchrow(
            "SELECT bucket_id, span_start FROM buckets WHERE scope_id = $1 AND span_start <= $2 AND span_end > $2",
            scope,
            instant,
        )
        evidence: list[UUID] = [ids.new_evidence_id() for _ in range(count)]
        async with connection.transaction():
            await connection.executemany(
                "INSERT INTO parts (scope_id, evidence, run_uid, exchange, attempt, kind, bucket_id, span_start,"
                " session, sequence, size_class, media_type, completeness, vantage, source_set, received_at,"
                " stored_at, commitment, meta_commitment, meta_opening)"
                " VALUES ($1, $2, $3, $4, 'a', 'logical-request', $5, $6, $7, $8, 256, 'text/plain', 'complete', 'sdk',"
                " $9, now(), now(), $10, $10, $10)",
                [
                    (
                        scope,
                        each,
                        run,
                        f"x{number}-{each.hex[-8:]}",
                        bucket,
                        start,
                        session,
                        number if session else None,
                        source_set,
                        bytes(32),
                    )
                    for number, each in enumerate(evidence, first)
                ],
            )
            await connection.executemany(
                "INSERT INTO bodies (span_start, scope_id, evidence, bucket_id, wrapped, exact_bytes, ciphertext)"
                " VALUES ($1, $2, $3, $4, $5, 5, $6)",
                [(start, scope, each, bucket, each.bytes[-4:] * 15, bytes(64)) for each in evidence],
            )
        return evidence
    finally:
        await connection.close()


async def leaves(url: str) -> list[dict[str, Any]]:
    """Every leaf in the outbox, oldest first."""
    connection = await asyncpg.connect(url)
    try:
        return [
            json.loads(row["leaf"])
            for row in await connection.fetch("SELECT leaf FROM log_queue ORDER BY id")
        ]
    finally:
        await connection.close()


async def end_span(url: str, span_start: datetime) -> None:
    """Let a span's end be past, as if time had gone on; the partition keeps its name and bounds."""
    await execute(url, "ALTER TABLE buckets DROP CONSTRAINT IF EXISTS buckets_span_forward")
    await execute(
        url, "UPDATE buckets SET span_end = now() - interval '1 second' WHERE span_start = $1", span_start
    )
