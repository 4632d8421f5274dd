"""Small makers for what a writer meets: scopes with their buckets, runs, and entries as a queue delivers them.

async with factories.house(database_url, keys_dir) as house:
    run = await house.declare()
    entry = house.part(run, b"content")
"""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from policies.limits import RunLimits, ScopeLimits, ShardLimits
from policies.reasons import Reason
from store import commitments, ids
from store.commitments import Identity
from store.db import DUTIES_ROLE, SERVICE_ROLE, Database
from store.keyring import Keyring
from store.queue import (
    Entry,
    FactHeader,
    Frame,
    GapHeader,
    NoteFrame,
    PartFrame,
    PartHeader,
    Queue,
    RunKey,
    StateHeader,
    encode,
)
from store.services import facts
from store.services.buckets import ensure_buckets
from store.services.persist import Persister
from tests.support.duties import keyring_of, new_scope

SPAN_S = 86_400
MOST_BYTES = 1 << 20
REQUEST = "logical-request"
OUTPUT = "observable-output"


@dataclass(frozen=True, slots=True)
class Run:
    """A declared run."""

    scope: UUID
    run: str
    run_uid: UUID
    retain_until: datetime


@dataclass(slots=True)
class House:
    """A migrated database, its key directory, and one scope with buckets for three days and more."""

    url: str
    database: Database
    duties: Database
    keyring: Keyring
    scope: UUID
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def persister(self) -> Persister:
        return Persister(self.database, self.keyring, most_bytes=MOST_BYTES)

    # --- rows

    async def add_scope(self, policy: dict[str, Any] | None = None) -> UUID:
        """A scope with buckets, keys and partitions."""
        scope = await new_scope(self.url, policy=policy)
        await self.make_buckets()
        return scope

    async def make_buckets(self) -> None:
        await ensure_buckets(self.duties, self.keyring, span_s=SPAN_S)

    async def declare(
        self,
        run: str | None = None,
        *,
        scope: UUID | None = None,
        mode: str = "normal",
        content: str = "allow",
        sampled: bool = True,
        kinds: Sequence[str] = (REQUEST, OUTPUT),
        keep: timedelta = timedelta(days=1),
    ) -> Run:
        """A run's row, as a declaration leaves it."""
        scope = scope or self.scope
        run = run or f"run-{next(self.numbers)}"
        run_uid = ids.new_run_uid()
        retain_until = await self.value(
            "INSERT INTO runs (scope_id, run_uid, run, mode, content, sampled, kinds, retain_until, owner_key,"
            " policy_version) VALUES ($1, $2, $3, $4, $5, $6, $7, now() + $8, 'key', 1) RETURNING retain_until",
            scope, run_uid, run, mode, content, sampled, list(kinds), keep,
        )  # fmt: skip
        return Run(scope, run, run_uid, retain_until)

    async def narrow(self, run: Run, **changes: Any) -> None:
        """Change one column of a run's row, as its narrowing would."""
        for column, value in changes.items():
            await self.execute(
                f"UPDATE runs SET {column} = $3 WHERE scope_id = $1 AND run_uid = $2",  # noqa: S608 - a test's own names
                run.scope,
                run.run_uid,
                value,
            )

    async def add_source(self, source: str, *, versions: int = 1, revoked: bool = False) -> None:
        await self.execute(
            "INSERT INTO sources (scope_id, source, source_uid, latest, revoked_at)"
            " VALUES ($1, $2, $3, $4, CASE WHEN $5 THEN now() END)",
            self.scope, source, ids.new_id(), versions, revoked,
        )  # fmt: skip
        await self.execute(
            "INSERT INTO source_versions (scope_id, source, version) SELECT $1, $2, generate_series(1, $3)",
            self.scope, source, versions,
        )  # fmt: skip

    # --- entries

    def part(
        self,
        run: Run,
        content: bytes,
        *,
        exchange: str = "exchange-1",
        attempt: str = "attempt-1",
        kind: str = REQUEST,
        evidence: UUID | None = None,
        session: str | None = None,
        sequence: int | None = None,
        sources: Sequence[tuple[str, int | None]] = (),
        dispatch: str = "unknown",
        settlement: str = "unknown",
        deliveries: int = 1,
        received_at: datetime | None = None,
        media_type: str = "application/json",
    ) -> Entry:
        """A part as it waits: sealed under the hour's intake key."""
        evidence = evidence or ids.new_evidence_id()
        identity = Identity(run.scope, run.run, exchange, attempt, kind)
        self.keyring.create_intake_keys(datetime.now(UTC), 1)
        frame = commitments.frame_encode(content, compress=True)
        intake = self.keyring.current_intake_key(datetime.now(UTC))
        header = PartHeader(
            scope=run.scope.bytes,
            run_uid=run.run_uid.bytes,
            run=run.run,
            exchange=exchange,
            attempt=attempt,
            kind=kind,
            evidence=evidence.bytes,
            session=session,
            sequence=sequence,
            media_type=media_type,
            completeness="complete",
            vantage="sdk",
            captured_at=None,
            received_at=microseconds(received_at or datetime.now(UTC)),
            dispatch=dispatch,
            settlement=settlement,
            sources=list(sources),
            policy_version=1,
            key_id=b"key",
        )
        sealed = commitments.seal_intake(intake, frame, identity, evidence)
        return Entry(self._id(), "part", header, sealed, None, deliveries)

    def state(
        self,
        run: Run,
        *,
        exchange: str = "exchange-1",
        attempt: str = "attempt-1",
        dispatch: str = "unknown",
        settlement: str = "unknown",
        refs: Sequence[bytes] = (),
    ) -> Entry:
        """What a runtime tells of an attempt."""
        header = StateHeader(
            run.scope.bytes, run.run_uid.bytes, run.run, exchange, attempt, dispatch, settlement, list(refs),
            microseconds(datetime.now(UTC)),
        )  # fmt: skip
        return Entry(self._id(), "state", header, None, None)

    def gap(
        self,
        run: Run,
        reason: Reason,
        *,
        said_by: str = "client",
        session: str | None = None,
        first: int | None = None,
        last: int | None = None,
        identity: tuple[str, str, str] | None = None,
        deliveries: int = 1,
        at: datetime | None = None,
    ) -> Entry:
        """A report that something is not there."""
        exchange, attempt, kind = identity or (None, None, None)
        by_store = said_by == "store"
        header = GapHeader(
            run.scope.bytes, run.run_uid.bytes, run.run, said_by, None if by_store else reason.value, session, first,
            first if last is None else last, exchange, attempt, kind, microseconds(at or datetime.now(UTC)),
        )  # fmt: skip
        return Entry(self._id(), "gap", header, None, reason if by_store else None, deliveries)

    def fact(self, run: Run, told: dict[str, Any], *, deliveries: int = 1) -> Entry:
        """One fact of a toolchain, as the api lets it pass."""
        body = facts.read(msgspec.json.encode(told))
        assert isinstance(body, bytes), body
        header = FactHeader(run.scope.bytes, run.run_uid.bytes, run.run, ids.new_id().bytes, body)
        return Entry(self._id(), "fact", header, None, None, deliveries)

    def _id(self) -> str:
        return f"1-{next(self.numbers)}"

    # --- looking, as the owner

    async def rows(self, sql: str, *arguments: Any) -> list[dict[str, Any]]:
        connection = await asyncpg.connect(self.url)
        try:
            return [dict(row) for row in await connection.fetch(sql, *arguments)]
        finally:
            await connection.close()

    async def value(self, sql: str, *arguments: Any) -> Any:
        rows = await self.rows(sql, *arguments)
        return next(iter(rows[0].values())) if rows else None

    async def execute(self, sql: str, *arguments: Any) -> None:
        await self.rows(sql, *arguments)

    async def count(self, table: str) -> int:
        return int(await self.value(f"SELECT count(*) FROM {table}"))  # noqa: S608 - a test's own names

    async def read_back(self, evidence: UUID) -> bytes:
        """The content of a stored part, opened step by step as a reader does it."""
        (row,) = await self.rows(
            "SELECT p.scope_id, r.run, p.exchange, p.attempt, p.kind, p.commitment, b.bucket_id, b.wrapped,"
            " b.ciphertext"
            " FROM parts p JOIN runs r USING (scope_id, run_uid) JOIN bodies b USING (span_start, scope_id, evidence)"
            " WHERE p.evidence = $1",
            evidence,
        )
        scope, bucket = row["scope_id"], row["bucket_id"]
        identity = Identity(scope, row["run"], row["exchange"], row["attempt"], row["kind"])
        key = self.keyring.bucket_key(scope, bucket)
        secret = commitments.unwrap_secret(key, row["wrapped"], scope, bucket, evidence)
        frame = commitments.open_part(secret, row["ciphertext"], identity, evidence)
        content = commitments.frame_decode(frame, MOST_BYTES)
        assert commitments.commitment(commitments.part_keys(secret)[1], content) == row["commitment"]
        return content


@asynccontextmanager
async def house(url: str, keys_dir: Path) -> AsyncIterator[House]:
    """A house of a test's own."""
    database = await Database.open(url, role=SERVICE_ROLE, size=8)
    duties = await Database.open(url, role=DUTIES_ROLE, size=4)
    try:
        made = House(url, database, duties, keyring_of(keys_dir), await new_scope(url))
        await made.make_buckets()
        yield made
    finally:
        await database.close()
        await duties.close()


@asynccontextmanager
async def queue_at(url: str) -> AsyncIterator[Queue]:
    """A write queue with one shard and default limits."""
    queue = Queue(url, shards=1, shard_limits=ShardLimits())
    try:
        yield queue
    finally:
        await queue.close()


async def queue_up(queue: Queue, run: Run, entries: Sequence[Entry]) -> None:
    """Let the queue know the run, and take entries (made by `House`) into it as a runtime's post would."""
    key = RunKey(run.scope, run.run)
    await queue.open_run(
        key, run_uid=run.run_uid, state="open", policy_version=1, retain_until=run.retain_until, temporary=False,
        run_limits=RunLimits(run_parts=10_000, run_waiting_parts=4_000, run_waiting_notes=4_000),
        scope_limits=ScopeLimits(),
    )  # fmt: skip
    answers = await queue.append([_frame(key, entry) for entry in entries])
    assert {answer.outcome for answer in answers} == {"queued"}


def _frame(key: RunKey, entry: Entry) -> Frame:
    header = entry.header
    if not isinstance(header, PartHeader):
        assert entry.type != "part"
        return NoteFrame(key, entry.type, encode(header), entry.reason)
    return PartFrame(
        key, header.exchange, header.attempt, header.kind, UUID(bytes=header.evidence), encode(header),
        entry.sealed or b"", 100, b"\x01" * 8, b"\x02" * 8, header.session, header.sequence,
    )  # fmt: skip


def microseconds(instant: datetime) -> int:
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def evidence_of(entry: Entry) -> UUID:
    header = entry.header
    assert isinstance(header, PartHeader)
    return UUID(bytes=header.evidence)
