"""Each step of the writer's transaction fails once, before it happened or after: nothing lost, doubled, half there."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from policies.reasons import Reason
from store.errors import Unavailable
from store.queue import Entry
from store.services.verify import verify
from store.tables import (
    attempts,
    batch,
    bodies,
    facts,
    gaps,
    log_queue,
    parts,
    source_sets,
    spans,
    tombstones,
)
from tests.support import factories
from tests.support.factories import REQUEST, House
from tests.support.facts import classic

STEPS: list[tuple[ModuleType, str]] = [
    (batch, "ends"),
    (batch, "buckets_at"),
    (spans, "attached"),
    (batch, "lock_buckets"),
    (batch, "lock_runs"),
    (tombstones, "found"),
    (batch, "source_facts"),
    (batch, "scope_demands"),
    (parts, "copy"),
    (parts, "insert"),
    (bodies, "copy"),
    (log_queue, "copy"),
    (parts, "holders"),
    (source_sets, "put"),
    (attempts, "tell"),
    (facts, "take_runs"),
    (facts, "known"),
    (facts, "copy"),
    (facts, "count"),
    (batch, "gapped"),
    (gaps, "superseded"),
    (gaps, "lock_runs"),
    (gaps, "named"),
    (gaps, "named_counts"),
    (gaps, "put_named"),
    (gaps, "ranges"),
    (gaps, "put_ranges"),
    (gaps, "supersede"),
]

TABLES = ("parts", "bodies", "log_queue", "attempts", "gaps", "facts", "fact_runs")


@pytest.fixture
async def house(database_url: str, keys_dir: Path) -> AsyncIterator[House]:
    async with factories.house(database_url, keys_dir) as made:
        await made.add_source("doc-7", versions=3)
        # Marks are looked for only where there are any.
        async with made.database.transaction() as connection:
            await tombstones.leave(connection, made.scope, [b"\x02" * 32], Reason.ERASED)
        yield made


async def everything(house: House) -> list[Entry]:
    """A batch that needs every step: parts, one of them refused, one superseding a gap; states; facts; gaps."""
    run, refused = await house.declare(), await house.declare(content="opt_out")
    await house.persister().persist(
        [house.gap(run, Reason.CLIENT_TRANSPORT, identity=("x-0", "attempt-1", REQUEST))]
    )
    return [
        house.part(run, b"content", exchange="x-0", session="s", sequence=1, sources=[("doc-7", 3)]),
        house.part(run, b"content", exchange="x-1", dispatch="dispatched"),
        house.part(refused, b"content", session="s", sequence=1),
        house.state(run, exchange="x-0", settlement="completed", refs=[b"\x01" * 32]),
        *(house.fact(run, each) for each in classic()),
        house.gap(run, Reason.CLIENT_QUEUE_FULL, session="s", first=5, last=9),
    ]


def failing(
    step: Callable[..., Awaitable[Any]], error: BaseException, *, after: bool
) -> Callable[..., Awaitable[Any]]:
    async def fail(*arguments: Any) -> Any:
        if after:
            await step(*arguments)
        raise error

    return fail


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "error", [Unavailable(Reason.STORE_UNAVAILABLE, "made up"), asyncio.CancelledError()]
)
async def test_each_step_fails_once(
    house: House, monkeypatch: pytest.MonkeyPatch, error: BaseException, *, after: bool
) -> None:
    for round_, (module, name) in enumerate(STEPS, start=1):
        entries = await everything(house)
        if name == "insert":
            # Only what was delivered before can have been written before.
            entries = [msgspec.structs.replace(entry, deliveries=2) for entry in entries]
        before = [await house.count(table) for table in TABLES]
        with monkeypatch.context() as patched:
            patched.setattr(module, name, failing(getattr(module, name), error, after=after))
            with pytest.raises(type(error)):
                await house.persister().persist(entries)
        now = [await house.count(table) for table in TABLES]
        assert now == before, f"{name} left something behind"

        done = await house.persister().persist(entries)

        assert [each.outcome for each in done.settlements if each.type == "part"] == [
            "stored",
            "stored",
            "refused",
        ]
        assert (
            await house.count("parts")
            == await house.count("bodies")
            == await house.count("log_queue")
            == 2 * round_
        )
        assert await house.value("SELECT count(*) FROM gaps WHERE superseded_by IS NOT NULL") == round_
        assert (
            await house.count("facts") == await house.value("SELECT sum(kept) FROM fact_runs") == 9 * round_
        )
    report = await verify(house.database, house.keyring)
    assert report.sound, report.faults
