"""Holds race what destroys: no hold is acknowledged whose part is then destroyed, and nothing else is kept by them."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest

from policies.holds import Placing
from store.db import SERVICE_ROLE, Database
from store.errors import Unavailable
from store.queue import Queue
from store.services.buckets import ensure_buckets
from store.services.expiry import Expiry
from store.services.holds import Holds, On, OnPart, OnRun, OnScope
from store.services.purge import Purge
from tests.support import factories
from tests.support.duties import end_span, execute, scalar
from tests.support.factories import House, Run, evidence_of
from tests.support.held import HELD, body_of
from tests.support.publication import publish_at_once

DAY = 86_400


@dataclass
class Racing:
    """A house, and what destroys in it."""

    house: House
    holds: Holds
    purge: Purge
    expiry: Expiry
    deadlocks: int = 0

    async def parts(self, run: Run, count: int) -> list[UUID]:
        entries = [
            self.house.part(run, b"content %d" % number, exchange=f"x-{number}") for number in range(count)
        ]
        done = await self.house.persister().persist(entries)
        assert [each.outcome for each in done.settlements] == ["stored"] * count
        return [evidence_of(entry) for entry in entries]

    async def place(self, scope: UUID, on: On, after_s: float) -> Placing:
        """Place a hold in a moment; waits for locks as an operator does."""
        await asyncio.sleep(after_s)
        while True:
            try:
                return (await self.holds.place(scope, on, "matter 7", "op")).answer
            except Unavailable as fault:
                # Two that wait for each other: the database ends one of them, which then asks again.
                if fault.cause != "DeadlockDetectedError":
                    raise
                self.deadlocks += 1

    async def kept(self, evidence: UUID) -> bool:
        """Whether a part is there and can be opened with the keys that are left."""
        if await body_of(self.house.url, evidence) is None:
            return False
        await self.house.read_back(evidence)
        return True


@pytest.fixture
async def racing(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Racing]:
    async with factories.house(database_url, keys_dir) as house, factories.queue_at(redis_url) as queue:
        await publish_at_once(database_url)
        service = await Database.open(database_url, role=SERVICE_ROLE, size=12)
        yield Racing(house, Holds(service), *destroyers(house, queue))
        await service.close()


def destroyers(house: House, queue: Queue) -> tuple[Purge, Expiry]:
    return Purge(house.duties, house.keyring, queue), Expiry(house.duties, house.keyring, queue, DAY)


async def agree(racing: Racing, evidence: Sequence[UUID], answers: Sequence[Placing]) -> Counter[Placing]:
    for part, answer in zip(evidence, answers, strict=True):
        assert await racing.kept(part) is (answer is Placing.PLACED), (part, answer)
    return Counter(answers)


# --- erasure and purge


async def race_purge(racing: Racing, chance: random.Random, count: int) -> Counter[Placing]:
    """Erase a run of `count` parts, each of which somebody tries to hold meanwhile; one more is held by nobody."""
    run = await racing.house.declare()
    *wanted, alone = await racing.parts(run, count + 1)
    await racing.house.execute(
        "INSERT INTO erasures (scope_id, erasure_id, target_kind, run_uid, requested_by)"
        " VALUES ($1, gen_random_uuid(), 'run', $2, 'op')",
        run.scope, run.run_uid,
    )  # fmt: skip
    purging = asyncio.create_task(racing.purge.run())
    answers = await asyncio.gather(
        *(racing.place(run.scope, OnPart(each), chance.random() * 0.08) for each in wanted),
    )
    await purging
    await racing.purge.run()
    assert not await racing.kept(alone)
    return await agree(racing, wanted, answers)


async def test_a_hold_that_races_purge_tells_the_truth(racing: Racing):
    assert (await race_purge(racing, random.Random(1), 8)).total() == 8


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_two_hundred_holds_race_purge(racing: Racing):
    chance, seen = random.Random(7), Counter[Placing]()
    for _ in range(25):
        seen += await race_purge(racing, chance, 8)
    assert seen.total() == 200
    # A race that always ends in the same way is none.
    assert min(seen[Placing.PLACED], seen[Placing.TOO_LATE]) > 0, seen
    assert racing.deadlocks == 0


@pytest.mark.parametrize("on_scope", [False, True])
async def test_a_hold_on_a_whole_run_or_scope_races_purge(racing: Racing, on_scope: bool):
    """What was marked before is gone, what was not is kept; a hold on a run that has lost some still keeps the rest."""
    scope = await racing.house.add_scope()
    run = await racing.house.declare(scope=scope)
    parts = await racing.parts(run, 12)
    for each in parts:
        await racing.house.execute(
            "INSERT INTO erasures (scope_id, erasure_id, target_kind, run_uid, evidence, requested_by)"
            " VALUES ($1, gen_random_uuid(), 'part', $2, $3, 'op')",
            scope, run.run_uid, each,
        )  # fmt: skip
    on: On = OnScope() if on_scope else OnRun(run.run)
    await asyncio.gather(racing.purge.run(), racing.place(scope, on, 0.01))
    state = "SELECT state FROM parts WHERE evidence = $1"
    before = {each: await racing.house.value(state, each) for each in parts}
    await racing.purge.run()
    for each, was in before.items():
        assert await racing.kept(each) is (was == "stored")


# --- expiry


async def race_expiry(racing: Racing, chance: random.Random, span: object) -> Counter[Placing]:
    """Let a span go while its parts, one by one, and a whole run are tried to be held; siblings go."""
    house = racing.house
    keep = await house.value("SELECT $1::timestamptz + interval '1 hour' - now()", span)
    run, whole, left = [await house.declare(keep=keep) for _ in range(3)]
    *wanted, sibling = await racing.parts(run, 7)
    of_whole, of_left = await racing.parts(whole, 2), await racing.parts(left, 2)
    await house.execute("UPDATE leases SET paced_at = NULL")
    await end_span(house.url, await scalar(house.url, "SELECT $1::timestamptz", span))

    await house.execute(
        "UPDATE runs SET retain_until = now() - interval '1 minute' WHERE retain_until > now()"
    )
    expiring = asyncio.create_task(racing.expiry.run())
    answer, *answers = await asyncio.gather(
        racing.place(house.scope, OnRun(whole.run), chance.random() * 0.05),
        *(racing.place(house.scope, OnPart(each), chance.random() * 0.05) for each in wanted),
    )
    await expiring
    while await house.value(
        "SELECT count(*) FROM buckets WHERE span_start = $1 AND state <> 'destroyed'", span
    ):
        await racing.expiry.run()
    for each in (sibling, *of_left):
        assert not await racing.kept(each)
    for each in of_whole:
        assert await racing.kept(each) is (answer is Placing.PLACED)
    there = "SELECT count(*) FROM bodies WHERE span_start <> $1::text::timestamptz AND evidence = ANY($2)"
    assert await house.value(there, HELD, [*wanted, *of_whole]) == 0
    return await agree(racing, wanted, answers) + Counter([answer])


async def _spans(racing: Racing, count: int) -> list[object]:
    await execute(racing.house.url, "UPDATE scopes SET retention_max_s = $1", max(3, count) * DAY)
    await ensure_buckets(racing.house.duties, racing.house.keyring, span_s=DAY)
    rows = await racing.house.rows(
        "SELECT DISTINCT span_start FROM buckets WHERE span_start > now() ORDER BY span_start LIMIT $1", count
    )
    return [row["span_start"] for row in rows]


async def test_a_hold_that_races_expiry_tells_the_truth(racing: Racing):
    chance = random.Random(1)
    for span in await _spans(racing, 2):
        assert (await race_expiry(racing, chance, span)).total() == 7


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_fifty_expiries_race_holds(racing: Racing):
    chance, seen = random.Random(7), Counter[Placing]()
    for span in await _spans(racing, 50):
        seen += await race_expiry(racing, chance, span)
    assert seen.total() == 350
    assert min(seen[Placing.PLACED], seen[Placing.TOO_LATE]) > 0, seen
    assert racing.deadlocks == 0
