"""Facts when something fails: a writer killed where it hurts, Postgres away, a database that goes back."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from policies.kinds import Role
from tests.support.backup import Back
from tests.support.capture import Capturing
from tests.support.facts import classic, stage
from tests.support.journey import Journey, journey
from tests.support.ledger import Runtime, drained, sound
from tests.support.locks import held, somebody_waits
from tests.support.stack import Stack, until
from tests.support.traffic import site

MANY = [stage(f"a-{n}", "execution", "started") for n in range(40)]


async def told(runtime: Runtime, facts: Sequence[dict[str, Any]]) -> list[str | None]:
    """Report facts, some at a time; return why each is not remembered."""
    found: list[str | None] = []
    for at in range(0, len(facts), 64):
        answer = await runtime.client.post(
            f"/v1/runs/{runtime.run}/facts",
            json={"facts": facts[at : at + 64]},
            headers={**runtime.key, "Custody-Ticket": runtime.ticket},
        )
        assert answer.status_code == 202, answer.text
        found += [each["reason"] for each in answer.json()["facts"]]
    return found


async def kept(stack: Stack, runtime: Runtime) -> tuple[int, int]:
    """How many facts of a run there are, and how many are said to be there."""
    row = await stack.value(
        "SELECT ARRAY[(SELECT count(*) FROM facts f WHERE f.scope_id = r.scope_id AND f.run_uid = r.run_uid),"
        " coalesce((SELECT k.kept FROM fact_runs k WHERE k.scope_id = r.scope_id AND k.run_uid = r.run_uid), 0)]"
        " FROM runs r WHERE r.scope_id = $1 AND r.run = $2",
        runtime.scope,
        runtime.run,
    )
    return row[0], row[1]


async def test_a_writer_killed_between_commit_and_settle_writes_no_fact_twice(stack):
    async with site(stack) as here:
        runtime = await here.runtime("run")
        assert await told(runtime, MANY) == [None] * 40
        with stack.redis() as client:
            async with held(stack, "LOCK TABLE facts IN SHARE MODE"):
                first = stack.writer()
                await somebody_waits(stack)
                # The writer can commit, and cannot settle.
                client.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")

            async def committed() -> bool:
                # Some batches of the stack's size; those behind wait for their turn.
                return (await kept(stack, runtime))[0] > 0

            await until(committed, "the first writer commits")
            first.kill()
            client.execute_command("CLIENT", "UNPAUSE")
            assert client.xlen("custody:{q0}:entries") == 40
        stack.writer()
        await drained(stack)
        assert await kept(stack, runtime) == (40, 40)
        await sound(stack)


@pytest.mark.long
async def test_a_writer_killed_before_its_commit_leaves_none_and_the_next_writes_them(stack):
    async with site(stack) as here:
        runtime = await here.runtime("run")
        await told(runtime, MANY)
        async with held(stack, "LOCK TABLE facts IN SHARE MODE"):
            first = stack.writer()
            await somebody_waits(stack)
            first.kill()
        assert await kept(stack, runtime) == (0, 0)
        stack.writer()
        await drained(stack)
        assert await kept(stack, runtime) == (40, 40)


async def test_two_writers_and_facts_told_again_and_again_are_written_once(stack):
    async with site(stack) as here:
        runtime = await here.runtime("run")
        stack.writer()
        stack.writer()
        for _ in range(6):
            await told(runtime, MANY)
        await drained(stack)
        assert await kept(stack, runtime) == (40, 40)
        await sound(stack)


@pytest.mark.long
async def test_while_postgres_is_away_facts_wait_up_to_their_bound_and_are_written_afterwards(open_stack):
    stack = await open_stack(own=True, max_deliveries="1")
    async with site(stack) as here:
        runtime = await here.runtime("run")
        stack.writer()
        assert await told(runtime, MANY[:1]) == [None]
        await drained(stack)
        stack.stop_postgres()
        facts = [stage(f"b-{n}", "execution", "started") for n in range(150)]
        answers = await told(runtime, facts)
        assert answers == [None] * 64 + ["capacity_exceeded"] * 86
        stack.start_postgres()
        await drained(stack)
        assert await kept(stack, runtime) == (65, 65)
        assert await told(runtime, facts[-22:]) == [None] * 22
        await drained(stack)
        assert await kept(stack, runtime) == (87, 87)


# --- a database that goes back


@pytest.fixture
async def back(
    postgres_url: str, template_database: str, valkey_url: str, tmp_path: Path
) -> AsyncIterator[Back]:
    mirror = str(tmp_path / "mirror")
    async with journey(postgres_url, template_database, valkey_url, tmp_path, mirror_dir=mirror) as way:
        yield Back(way, tmp_path)


async def chained(way: Journey, *, parts: bool = True) -> Capturing:
    """A run with the facts of a chain, and a part."""
    runtime = await way.runtime(of=await way.scope())
    if parts:
        assert (await runtime.put(b'{"secret":"x"}')).status_code == 202
    answer = await way.client.post(
        f"/v1/runs/{runtime.run}/facts", json={"facts": classic()}, headers=runtime.headers()
    )
    assert answer.status_code == 202
    await way.write()
    return runtime


async def test_a_restore_brings_back_no_facts_of_what_was_erased_meanwhile(back):
    way = back.way
    erased, kept_run = await chained(way), await chained(way)
    await back.publish()
    await back.backup()
    operator = await way.key(Role.OPERATOR, erased.scope)
    assert (
        await way.client.post("/v1/erasures", json={"run": erased.run}, headers=operator)
    ).status_code == 202
    assert (await way.duties.perform("purge")).succeeded
    await back.publish()
    assert (await way.get(f"/v1/runs/{erased.run}/actions", erased)).status_code == 410

    await back.go_back()
    assert await back.round() == "rolled_back"
    # In the backup they are there; the stop, of which a process hears within a second, keeps them from being read.
    assert await way.house.count("facts") == 18

    async def closed() -> bool:
        answer = await way.get(f"/v1/runs/{erased.run}/actions", erased)
        return bool(answer.status_code == 503)

    await until(closed, "reads are closed")
    assert await back.restore()
    assert await way.house.count("facts") == 9
    assert (await way.json(f"/v1/runs/{erased.run}/actions", erased))["items"] == []
    (item,) = (await way.json(f"/v1/runs/{kept_run.run}/actions", kept_run))["items"]
    assert item["executions"] == 1
    assert (await back.verified()).sound


async def test_facts_of_an_erased_run_whose_parts_are_in_no_backup_go_when_its_erasure_is_asked_for_again(
    back,
):
    way = back.way
    erased = await chained(way, parts=False)
    # So that there is something to go back behind.
    await chained(way)
    await back.publish()
    await back.backup()
    assert (await erased.put(b'{"secret":"later"}')).status_code == 202
    await way.write()
    operator = await way.key(Role.OPERATOR, erased.scope)

    async def erase() -> None:
        asked = await way.client.post("/v1/erasures", json={"run": erased.run}, headers=operator)
        assert asked.status_code == 202
        assert (await way.duties.perform("purge")).succeeded
        gone = await way.get(f"/v1/runs/{erased.run}/actions", erased)
        assert (gone.status_code, await way.house.count("facts")) == (410, 9)

    await erase()
    await back.publish()
    await back.go_back()
    assert await back.round() == "rolled_back"
    assert await back.restore()
    # The log knows that the part is gone, and not of which run it was.
    assert len((await way.json(f"/v1/runs/{erased.run}/actions", erased))["items"]) == 1
    await erase()


async def test_what_ended_meanwhile_ends_again_though_no_leaf_says_so(back):
    way = back.way
    runtime = await chained(way, parts=False)
    # So that there is something to go back behind.
    other = await chained(way)
    await back.publish()
    await back.backup()
    assert (await other.put(b"later", "x-2")).status_code == 202
    await way.write()
    await back.publish()
    await back.go_back()
    await back.round()
    await way.house.execute("UPDATE runs SET retain_until = now() WHERE run = $1", runtime.run)
    assert await back.restore()
    assert await way.house.value("SELECT count(DISTINCT run_uid) FROM facts") == 1
    gone = await way.get(f"/v1/runs/{runtime.run}/actions", runtime)
    assert gone.status_code == 410
