"""What the tests of the sequencer need: leaves put into its queue, and the log read as its owner."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from store import ids
from store.commitments import leaf
from store.db import Database
from store.services.sequencing import Sequencer

WHEN = datetime(2025, 11, 30, tzinfo=UTC)
SCOPE = UUID("01" * 16)
BUCKET = UUID("02" * 16)

# The leaves that the duties queue with what they do, for tests that do it by SQL.
EXPIRE_LEAVES = """
INSERT INTO log_queue (scope_id, leaf)
SELECT b.scope_id, convert_to(format('{"b":"%s","k":"expire","n":%s,"t":1,"v":1}', replace(b.bucket_id::text, '-', ''),
    (SELECT count(*) FROM parts p WHERE p.bucket_id = b.bucket_id)), 'UTF8')
FROM buckets b
"""
PURGE_LEAVES = """
INSERT INTO log_queue (scope_id, leaf)
SELECT p.scope_id, convert_to(format('{"k":"purge","of":null,"p":"%s","t":1,"v":1,"w":"erased"}',
    replace(p.evidence::text, '-', '')), 'UTF8')
FROM parts p
"""


def part_leaf(evidence: UUID | None = None, bucket: UUID = BUCKET) -> bytes:
    evidence = evidence or ids.new_evidence_id()
    return leaf("part", b=bucket, c=evidence.bytes * 2, m=evidence.bytes * 2, p=evidence, t=WHEN)


def purge_leaf(evidence: UUID) -> bytes:
    return leaf("purge", of=None, p=evidence, t=WHEN, w="erased")


def sequencer(database: Database) -> Sequencer:
    return Sequencer(database, timedelta(minutes=15))


async def queue(url: str, leaves: Iterable[bytes], scope: UUID = SCOPE) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.copy_records_to_table(
            "log_queue", records=[(scope, each) for each in leaves], columns=("scope_id", "leaf")
        )
    finally:
        await connection.close()


async def rows(url: str, sql: str, *arguments: Any) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url)
    try:
        found: list[asyncpg.Record] = await connection.fetch(sql, *arguments)
        return found
    finally:
        await connection.close()


async def entries(url: str) -> list[bytes]:
    """Every entry, whose indexes are checked to be without hole."""
    found = await rows(url, "SELECT idx, leaf FROM log_entries ORDER BY idx")
    assert [row["idx"] for row in found] == list(range(len(found)))
    return [row["leaf"] for row in found]
