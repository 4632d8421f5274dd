"""The answer to a writer's COMMIT is lost: it writes the same entries again, and each counts exactly once."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from policies.reasons import Reason
from store.db import SERVICE_ROLE, Connection, Database
from store.errors import Unavailable
from store.queue import Entry, Queue
from store.services import gap_records
from store.services.batch_rows import Verdicts, write_parts
from store.services.gap_records import MOST_NAMES
from store.services.write_batch import BatchWriter
from tests.support import factories
from tests.support.factories import REQUEST, House, queue_at, queue_up
from tests.support.services import short_directory
from tests.support.wires import Wire, wire_to
from tests.support.writers import MAX_DELIVERIES, drained, nothing_reserved, writing

_COMMIT = b"COMMIT;"

REFUSED = MOST_NAMES + 44
"""So many that some are kept by name and the others as a count."""

Lost = Literal["answer", "command"]


class Breaks(Wire):
    """A way to Postgres that breaks at one COMMIT: behind it, or before it."""

    loses: Lost | None = None

    def forth(self, data: bytes) -> bytes | None:
        return self._unless(_COMMIT in data and self.loses == "command", data)

    def back(self, data: bytes) -> bytes | None:
        return self._unless(b"COMMIT\x00" in data and self.loses == "answer", data)

    def _unless(self, lost: bool, data: bytes) -> bytes | None:
        if not lost:
            return data
        self.loses = None
        return None


@pytest.fixture
async def house(database_url: str, keys_dir: Path) -> AsyncIterator[House]:
    async with factories.house(database_url, keys_dir) as made:
        yield made


@pytest.fixture
async def wire(database_url: str) -> AsyncIterator[Breaks]:
    with short_directory() as directory:
        async with wire_to(database_url, directory, Breaks()) as made:
            yield made


@pytest.fixture
async def over(house: House, wire: Breaks) -> AsyncIterator[House]:
    """The same house, whose writers speak to Postgres over the wire."""
    database = await Database.open(wire.url, role=SERVICE_ROLE, size=4)
    try:
        yield replace(house, database=database)
    finally:
        await database.close()


@pytest.fixture
async def queue(redis_url: str) -> AsyncIterator[Queue]:
    async with queue_at(redis_url) as opened:
        yield opened


def refused(house: House, run: factories.Run, count: int) -> list[Entry]:
    """Refusals without a number."""
    return [
        house.gap(run, Reason.CAPACITY_EXCEEDED, said_by="store", identity=(f"x-{n}", "a", REQUEST))
        for n in range(count)
    ]


async def counted(house: House) -> tuple[int, int]:
    """How often all names together were refused, and how many refusals have no name."""
    (row,) = await house.rows(
        "SELECT coalesce(sum(times) FILTER (WHERE exchange IS NOT NULL), 0) AS named,"
        " coalesce(sum(merged), 0) AS merged FROM gaps"
    )
    return int(row["named"]), int(row["merged"])


@pytest.mark.parametrize("lost", ["answer", "command"])
async def test_each_refusal_is_counted_once(
    house: House, over: House, wire: Breaks, queue: Queue, lost: Lost
) -> None:
    run = await house.declare()
    await queue_up(queue, run, refused(house, run, REFUSED))
    wire.loses = lost

    async with writing(over, queue, batch=REFUSED):
        await drained(queue)

    assert wire.loses is None
    assert await counted(house) == (MOST_NAMES, REFUSED - MOST_NAMES)
    await nothing_reserved(queue)


@pytest.mark.parametrize("lost", ["answer", "command"])
async def test_parts_are_stored_and_refused_once(
    house: House, over: House, wire: Breaks, queue: Queue, lost: Lost
) -> None:
    open_, shut = await house.declare(), await house.declare()
    for run in (open_, shut):
        await queue_up(queue, run, [house.part(run, b"%d" % n, exchange=f"x-{n}") for n in range(10)])
    await house.narrow(shut, content="opt_out")
    wire.loses = lost

    async with writing(over, queue):
        await drained(queue)

    assert wire.loses is None
    assert await house.count("parts") == await house.count("bodies") == await house.count("log_queue") == 10
    assert await counted(house) == (10, 0)
    assert await queue.outcomes() == {"stored": 10, "content_opt_out": 10}
    await nothing_reserved(queue)


@pytest.mark.parametrize("lost", ["answer", "command"])
async def test_they_are_marked_and_not_one_delivery_nearer_to_being_suspects(
    house: House, over: House, wire: Breaks, lost: Lost
) -> None:
    entries = refused(house, await house.declare(), 3)
    batches = BatchWriter(over.persister(), max_deliveries=MAX_DELIVERIES)
    wire.loses = lost

    written = await batches.write(entries)

    assert written.outage is not None
    assert [(entry.id, entry.deliveries, entry.again) for entry in written.left] == [
        (entry.id, 1, True) for entry in entries
    ]


async def test_an_outage_before_the_commit_marks_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = refused(house, await house.declare(), 3)
    monkeypatch.setattr(gap_records, "record", away)

    written = await BatchWriter(house.persister(), max_deliveries=MAX_DELIVERIES).write(entries)

    assert written.outage is not None
    assert written.left == entries


async def away(*_: Any) -> None:
    raise Unavailable(Reason.STORE_UNAVAILABLE, "made up")


async def test_what_is_given_up_is_counted_once(house: House, over: House, wire: Breaks) -> None:
    run = await house.declare()
    entries = refused(house, run, MOST_NAMES)
    await house.persister().persist(entries)
    bad = house.part(run, b"bad", exchange="bad")
    batches = BatchWriter(over.persister(), max_deliveries=1)
    wire.loses = "answer"

    (left,) = (await batches.give_up(bad)).left
    await batches.give_up(left)

    assert await counted(house) == (MOST_NAMES, 1)


async def test_what_an_earlier_round_committed_is_counted_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run was narrowed between sealing and locking: its parts come in a second transaction, which fails."""
    run, narrowed = await house.declare(), await house.declare()
    entries = [*refused(house, run, REFUSED), house.part(narrowed, b"content")]
    rounds = 0

    async def write(connection: Connection, candidates: Sequence[Any], *rest: Any, **named: Any) -> Verdicts:
        nonlocal rounds
        rounds += 1
        if rounds == 2:
            raise Unavailable(Reason.STORE_UNAVAILABLE, "made up")
        verdicts = await write_parts(connection, () if rounds == 1 else candidates, *rest, **named)
        verdicts.stale += [part.entry for part in candidates] if rounds == 1 else []
        return verdicts

    monkeypatch.setattr("store.services.persist.write_parts", write)
    batches = BatchWriter(house.persister(), max_deliveries=MAX_DELIVERIES)

    written = await batches.write(entries)
    again = await batches.write(written.left)

    assert (len(written.left), len(again.settlements)) == (REFUSED + 1, REFUSED + 1)
    assert await counted(house) == (MOST_NAMES, REFUSED - MOST_NAMES)
    assert await house.count("bodies") == 1
