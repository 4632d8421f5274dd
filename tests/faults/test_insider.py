"""What an insider changes in the database, one column at a time: who finds it is what docs/integrity.md says.

The columns are those of the migrated database; the document's table is what is expected. A new column, and a new
table, fails until it says who finds a change of it, or why nobody can.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest

from policies.kinds import Role
from policies.reasons import Reason
from store.commitments import leaf
from store.mirror import Mirror
from store.services import accounting, reads_open
from store.services.verify import Report, verify
from store.tables import runs
from tests.support.exporting import Desk, office
from tests.support.factories import OUTPUT, Run
from tests.support.log_queue import WHEN, queue
from tests.support.sources import ROOT

DOCUMENT = ROOT / "docs" / "integrity.md"
CONTENT = b'{"answer": "yes"}'
NOUGHTS = "coalesce({0}, decode(repeat('00', 32), 'hex'))"
# What a changed value is, by the type of its column, unless it is named below.
BY_TYPE = {
    "uuid": "gen_random_uuid()",
    "text": "coalesce({0}, '') || 'x'",
    "text[]": "{0} || 'x'::text",
    "bytea": f"set_byte({NOUGHTS}, 9, 255 - get_byte({NOUGHTS}, 9))",
    "bytea[]": "coalesce({0}[2:], '{{}}') || decode(repeat('07', 32), 'hex')",
    "bigint": "coalesce({0}, 0) + 1",
    "integer": "coalesce({0}, 0) + 1",
    "integer[]": "array_append({0}[2:], 7)",
    "boolean": "NOT {0}",
    "timestamp with time zone": "coalesce({0}, now()) + interval '1 second'",
    "jsonb": "jsonb_build_object('stored', 7)",
    "int8multirange": "{0} - int8multirange(int8range(3, 4))",
}
BY_NAME = {
    "parts.kind": "'observable-output'",
    "parts.completeness": "'truncated'",
    "parts.vantage": "'gateway'",
    "parts.state": "'purging', purge_reason = 'erased'",
    "parts.purge_reason": "'erased'",
    "buckets.state": "'expired'",
    "source_sets.sources": "'{{doc-2}}'",
    "runs.state": "'open'",
    "runs.mode": "'temporary'",
    "runs.content": "'opt_out'",
    "runs.kinds": "'{{}}'",
    "attempts.dispatch": "'dispatched'",
    "attempts.settlement": "'failed'",
    "attempts.dispatch_conflict": "'dispatched'",
    "attempts.settlement_conflict": "'failed'",
    "gaps.said_by": "'store'",
    "gaps.reason": "'client_shutdown'",
    "gaps.kind": "'observable-output'",
    "log_entries.idx": "idx + 100000",
    "log_entries.kind": "'hold'",
    "log_tiles.hashes": "set_byte(hashes, 9, 255 - get_byte(hashes, 9))",
    "log_state.size": "size + 1",
    "log_state.published_size": "published_size - 1",
    "log_state.stop": "'forked', stopped_at = now()",
    "log_state.stopped_at": "now(), stop = 'forked'",
}
WHOLE = "true"
# Which row it is that is changed; {0} is the part, {1} its run.
ROWS = {
    "parts": "evidence = '{0}'",
    "bodies": "evidence = '{0}'",
    "buckets": "bucket_id = (SELECT bucket_id FROM parts WHERE evidence = '{0}')",
    "source_sets": WHOLE,
    "runs": "run_uid = '{1}'",
    "sessions": WHOLE,
    "attempts": WHOLE,
    "gaps": "run_uid = '{1}' AND exchange IS NULL AND said_by = 'client'",
    "gaps.exchange": "exchange = 'x-9'",
    "gaps.attempt": "exchange = 'x-9'",
    "gaps.kind": "exchange = 'x-9'",
    "gaps.sequence": "exchange = 'x-9'",
    "gaps.times": "exchange = 'x-9'",
    "gaps.superseded_by": "superseded_by IS NOT NULL",
    "closings": WHOLE,
    "log_entries": "subject = '{0}'",
    "log_tiles": WHOLE,
    "log_state": WHOLE,
    "log_checkpoints": "size = (SELECT max(size) FROM log_checkpoints)",
    "log_queue": WHOLE,
}
TABLES = [name for name in ROWS if "." not in name]

Found = dict[str, frozenset[str]]


@dataclass(frozen=True)
class Case:
    """A small store with a published log: one closed run, and the part that is looked at."""

    desk: Desk
    owner: asyncpg.Connection
    run: Run
    part: UUID
    reviewer: dict[str, str]
    anchor: bytes

    async def found_by(self) -> frozenset[str]:
        finders = {"read": self._read_finds, "verify": self._verify_finds, "bundle": self._bundle_finds}
        return frozenset([name for name, finds in finders.items() if await finds()])

    async def _read_finds(self) -> bool:
        shelf = self.desk.shelf
        content = await shelf.get(f"/v1/parts/{self.part}/content", self.reviewer)
        view = await shelf.get(f"/v1/parts/{self.part}", self.reviewer)
        wrong = content.status_code != httpx.codes.OK and content.json()["reason"] in {
            Reason.INTEGRITY_MISMATCH, Reason.KEY_LOST, Reason.READS_CLOSED,
        }  # fmt: skip
        assert wrong or content.status_code != httpx.codes.OK or content.content == CONTENT
        return wrong or (view.status_code == httpx.codes.OK and view.json()["proof_state"] == "failed")

    async def verify(self) -> Report:
        house = self.desk.shelf.house
        return await verify(
            house.database, house.keyring, mirror=Mirror(self.desk.place / "mirror"), batch=100
        )

    async def _verify_finds(self) -> bool:
        return not (await self.verify()).sound

    async def _bundle_finds(self) -> bool:
        """Either there is none, or it says that something is wrong, or that something is unproven."""
        wanted: dict[str, Any] = {"anchors": [int(self.anchor.split(b"\n")[1])]}
        asked = await self.desk.ask(self.reviewer, runs=[self.run.run], **wanted)
        if asked.status_code == httpx.codes.NOT_FOUND:
            asked = await self.desk.ask(self.reviewer, evidence=[str(self.part)], **wanted)
        if asked.status_code != httpx.codes.CREATED:
            return True
        try:
            given = await self.desk.shelf.get(asked.json()["bundle"], self.reviewer)
        except AssertionError:
            # It was broken off, which no server stands between to show as such.
            return True
        return given.status_code != httpx.codes.OK or self.desk.verified(given.content, self.anchor).exit != 0


@pytest.fixture
async def case(
    database_url: str, redis_url: str, keys_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Case]:
    # Nothing is remembered from one change to the next.
    monkeypatch.setattr(reads_open, "_AGE_S", 0.0)
    async with office(database_url, redis_url, keys_dir, tmp_path) as desk:
        # Nor is it waited for what will not be published.
        monkeypatch.setattr(desk.shelf.api.services.exports._asking, "_patience_s", 0.0)
        house, shelf = desk.shelf.house, desk.shelf
        run = await house.declare()
        await house.add_source("doc-1")
        await shelf.persist(
            [
                house.gap(run, Reason.CLIENT_TRANSPORT, identity=("exchange-1", "attempt-1", "logical-request")),
                house.gap(run, Reason.CLIENT_TRANSPORT, identity=("x-9", "attempt-1", "logical-request")),
                house.gap(run, Reason.CLIENT_QUEUE_FULL, session="s-1", first=3, last=4),
                house.state(run, settlement="completed"),
            ]
        )  # fmt: skip
        part = await shelf.store(run, CONTENT, session="s-1", sequence=1, sources=[("doc-1", 1)])
        await shelf.store(run, b"2", exchange="exchange-2", kind=OUTPUT, session="s-1", sequence=2)
        await close(desk, run)
        # More than one tile of them.
        await queue(house.url, [leaf("resume", size=0, t=WHEN, why="rolled_back")] * 260, house.scope)
        await desk.publish()
        # And one leaf that waits.
        await shelf.store(await house.declare(), b"waits")
        owner = await asyncpg.connect(house.url)
        try:
            # No trigger and no foreign key stands in this insider's way.
            await owner.execute("SET session_replication_role = replica")
            for table in TABLES:
                await owner.execute(f"CREATE TABLE saved_{table} AS TABLE {table}")
            yield Case(desk, owner, run, part, await shelf.key(Role.REVIEWER), await desk.checkpoint())
        finally:
            await owner.close()


async def close(desk: Desk, run: Run) -> None:
    """Close a run as the duty does; number 5 was never told of."""
    house = desk.shelf.house
    await house.execute(
        "INSERT INTO sessions (scope_id, run_uid, session, announced) VALUES ($1, $2, 's-1', 5)",
        run.scope, run.run_uid,
    )  # fmt: skip
    async with house.duties.transaction() as connection:
        row = await runs.lock(connection, run.scope, run.run)
        assert row is not None
        await accounting.close(connection, run.scope, row, never=False)


async def columns(owner: asyncpg.Connection) -> list[tuple[str, str, str]]:
    """Table, column and type, as the catalogue has them."""
    rows = await owner.fetch(
        "SELECT c.relname, a.attname, format_type(a.atttypid, NULL) FROM pg_class c"
        " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
        " WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname = ANY($1)"
        " ORDER BY array_position($1, c.relname::text), a.attnum",
        TABLES,
    )
    return [tuple(row) for row in rows]


async def undo(owner: asyncpg.Connection, table: str) -> None:
    identity = "OVERRIDING SYSTEM VALUE " if table == "log_queue" else ""
    await owner.execute(f"DELETE FROM {table}")  # noqa: S608 - a test's own names
    await owner.execute(f"INSERT INTO {table} {identity}TABLE saved_{table}")


async def change(case: Case, table: str, column: str, of_type: str) -> bool:
    """Do it; False where the schema refuses."""
    name = f"{table}.{column}"
    value = BY_NAME.get(name, BY_TYPE[of_type]).format(column)
    where = ROWS.get(name, ROWS[table]).format(case.part, case.run.run_uid)
    try:
        done = await case.owner.execute(f"UPDATE {table} SET {column} = {value} WHERE {where}")  # noqa: S608 - a test's own names
    except (asyncpg.CheckViolationError, asyncpg.GeneratedAlwaysError):
        return False
    assert done != "UPDATE 0", name
    return True


def documented() -> dict[str, tuple[frozenset[str], str]]:
    """Who finds which column's change, by the document: `table.column`, by whom, and why where that needs a word."""
    found = {}
    for table, names, by, why in re.findall(
        r"^\| `(\w+)` \| (.+?) \| (.*?) \| (.*?) \|$", DOCUMENT.read_text(), re.MULTILINE
    ):
        for column in re.findall(r"`(\w+)`", names):
            found[f"{table}.{column}"] = frozenset(re.findall(r"\w+", by)), why
    return found


async def test_every_table_and_column_says_who_finds_its_change(database_url: str):
    owner = await asyncpg.connect(database_url)
    rows = await owner.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
        " AND NOT relispartition"
    )
    there = {f"{table}.{column}" for table, column, _ in await columns(owner)}
    await owner.close()
    untried = re.findall(r"^\| `(\w+)` \| [^|]+ \|$", DOCUMENT.read_text(), re.MULTILINE)
    assert sorted([*TABLES, *untried]) == sorted(row["relname"] for row in rows)
    said = documented()
    assert said.keys() == there
    assert [name for name, (by, why) in said.items() if not (by & {"read", "verify"} or why)] == []


@pytest.mark.long
async def test_who_finds_which_change_is_what_the_document_says(case: Case):
    assert await case.found_by() == frozenset()
    report = await case.verify()
    assert (report.checked["closed runs"], report.checked["tiles"]) == (1, 1)
    found = {}
    for table, column, of_type in await columns(case.owner):
        changed = await change(case, table, column, of_type)
        found[f"{table}.{column}"] = await case.found_by() if changed else frozenset({"schema"})
        if changed:
            await undo(case.owner, table)
    assert await case.found_by() == frozenset()
    assert found == {name: by for name, (by, _) in documented().items()}
