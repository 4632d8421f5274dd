"""Valkey goes and comes back: with its data everything goes on; without, whoever was told `queued` learns the truth."""

import shutil

import httpx
import pytest

from policies.kinds import Role
from store.wiring import duties_of
from tests.support.ledger import Runtime, agree, books_of, drained, sound
from tests.support.stack import Stack, until
from tests.support.traffic import Site, Traffic, site


async def queued(here: Site, run: str, count: int) -> Runtime:
    runtime = await here.runtime(run)
    await runtime.flush([runtime.observe(b'{"part": %d}' % number) for number in range(count)])
    assert runtime.counts() == {"queued": count}
    return runtime


async def taken_again(runtime: Runtime) -> None:
    """Post until the service has noticed that its queue is back."""

    async def look() -> bool:
        said = await runtime.put(runtime.observe(b"{}"))
        if said.capture == "not_captured":
            await runtime.report([said]) if said.reason != "queue_unavailable" else None
        return said.capture == "queued"

    await until(look, "parts are queued again")


@pytest.mark.parametrize(
    "kill", [pytest.param(False, id="stopped", marks=pytest.mark.long), pytest.param(True, id="killed")]
)
async def test_with_its_data_everything_that_was_queued_is_stored(open_stack, kill):
    stack = await open_stack()
    async with site(stack) as here:
        runtime = await queued(here, "run", 10)
        stack.stop_valkey(kill=kill)

        away = await runtime.put(runtime.observe(b"{}"))
        assert (away.status, away.reason, away.recorded) == (503, "queue_unavailable", False)
        answer = await here.client.put(runtime.path(away), content=b"{}", headers=runtime.headers(away))
        assert answer.json()["retryable"] is False
        assert "retry-after" not in answer.headers
        assert (await here.client.get("/readyz")).status_code == httpx.codes.SERVICE_UNAVAILABLE

        stack.start_valkey()
        await taken_again(runtime)
        lost = [said for said in runtime.told("not_captured") if not said.recorded]
        await runtime.report(lost)
        stack.writer()
        await drained(stack)
        books = await books_of(stack, runtime)
        agree(runtime, books)
        assert books.by_outcome() == {"stored": 11, "client_transport": len(lost)}
        await sound(stack)


async def test_without_its_data_receipts_say_so_and_the_closing_counts_what_is_missing(open_stack):
    stack = await open_stack()
    async with site(stack) as here:
        duties = duties_of(await stack.services())
        assert (await duties.perform("reconcile")).succeeded
        opted = await here.runtime("opted-out")
        await opted.declare(content="opt_out")
        runtime = await queued(here, "run", 5)
        writer = stack.writer()
        await drained(stack)
        writer.kill()
        await runtime.flush([runtime.observe(b'{"lost": %d}' % number) for number in range(3)])
        refused = await runtime.put(runtime.observe(b"x" * 300_000))
        assert (refused.reason, refused.recorded) == ("part_too_large", True)

        stack.restart_valkey(keep=False)
        for said in runtime.told("queued"):
            found = await runtime.receipt(said)
            expected = ("stored", None) if said.sequence <= 5 else ("not_captured", "queue_entry_lost")
            assert (found["capture"], found["reason"]) == expected
        assert (await runtime.receipt(refused))["reason"] == "part_too_large"
        outcome = await duties.perform("reconcile")
        assert outcome.counts["lost_shards"] == 1

        # Runs are opened again, and know how they stand and what they hold: the same bytes are the same part.
        await taken_again(runtime)
        assert (await opted.put(opted.observe(b"{}"))).reason == "content_opt_out"
        again = await here.client.put(
            runtime.path(runtime.said[1]),
            content=runtime.said[1].content,
            headers=runtime.headers(runtime.said[1]),
        )
        assert (again.status_code, again.json()["capture"]) == (200, "stored")
        other = await here.client.put(
            runtime.path(runtime.said[1]), content=b"other", headers=runtime.headers(runtime.said[1])
        )
        assert (other.status_code, other.json()["reason"]) == (409, "identity_conflict")
        stack.writer()
        await drained(stack)

        await runtime.close()

        async def closed() -> bool:
            assert (await duties.perform("reconcile")).succeeded
            return bool((await runtime.close())["state"] == "closed")

        await until(closed, "the run is closed")
        books = await books_of(stack, runtime)
        gone = {6, 7, 8, 9}
        assert {number for number in runtime.said if books.outcome(number) == "unaccounted"} == gone
        assert books.stored.keys() == runtime.said.keys() - gone
        await sound(stack)


@pytest.mark.long
async def test_a_narrowing_while_it_is_away_holds_at_the_write(open_stack):
    stack = await open_stack()
    async with site(stack) as here:
        runtime, erased = await queued(here, "opted-out", 5), await queued(here, "erased", 5)
        stack.stop_valkey()
        for narrowed, wish in ((runtime, {"content": "opt_out"}), (erased, {"erase": True})):
            answer = await here.client.put(f"/v1/runs/{narrowed.run}", json=wish, headers=here.key)
            assert answer.status_code == httpx.codes.ACCEPTED, answer.text
            assert answer.json()["effective"] == "at_write"
        stack.start_valkey()
        stack.writer()
        await drained(stack)
        assert (await books_of(stack, runtime)).by_outcome() == {"content_opt_out": 5}
        assert (await books_of(stack, erased)).by_outcome() == {"erased": 5}
        await sound(stack)


@pytest.mark.long
async def test_an_old_copy_of_its_data_brings_back_nothing_that_was_refused_or_stored(open_stack):
    stack = await open_stack()
    async with site(stack) as here:
        stored, opted = await queued(here, "stored", 5), await queued(here, "opted-out", 5)
        stack.stop_valkey()
        shutil.copytree(stack.valkey_data, stack.directory / "copy")
        stack.start_valkey()
        await opted.declare(content="opt_out")
        stack.writer()
        await drained(stack)

        stack.stop_valkey()
        shutil.rmtree(stack.valkey_data)
        shutil.copytree(stack.directory / "copy", stack.valkey_data)
        stack.start_valkey()
        await drained(stack)
        # That copy does not know of the opt-out; the writer, who reads the row, does.
        late = await opted.put(opted.observe(b"{}"))
        assert late.reason in (None, "content_opt_out")
        await drained(stack)
        for runtime in (stored, opted):
            books = await books_of(stack, runtime)
            agree(runtime, books)
            assert set(books.by_outcome()) == {"stored" if runtime is stored else "content_opt_out"}
        await sound(stack)


async def restarted_under_load(stack: Stack, times: int) -> None:
    roomy = {"limits": {"run_parts": 100_000, "run_bytes": "1GiB"}, "waiting": {"run_notes": 4096}}
    async with site(stack, **roomy) as here:
        runtimes = [await here.runtime(f"run-{number}") for number in range(3)]
        stack.writer()
        async with Traffic(runtimes) as traffic:
            for number in range(times):
                answered = [len(runtime.told("queued", "stored")) for runtime in runtimes]
                stack.restart_valkey(keep=True, kill=number % 2 == 0)

                async def going_on(before: list[int] = answered) -> bool:
                    now = [len(runtime.told("queued", "stored")) for runtime in runtimes]
                    return all(is_now > was for is_now, was in zip(now, before, strict=True))

                await until(going_on, "every run's parts are queued again")
                async with traffic.paused():
                    for runtime in runtimes:
                        agree(runtime, await books_of(stack, runtime))
        await drained(stack)
        reader = await stack.key(Role.REVIEWER, here.scope)
        for runtime in runtimes:
            books = await books_of(stack, runtime)
            agree(runtime, books)
            assert books.stored.keys() >= {said.sequence for said in runtime.told("queued", "stored")}
            run = (await here.client.get(f"/v1/runs/{runtime.run}", headers=reader)).json()
            assert run["counts"]["stored"] == len(books.stored)
        await sound(stack)


async def test_restarted_twice_under_load(open_stack):
    await restarted_under_load(await open_stack(), 2)


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_restarted_ten_times_under_load(open_stack):
    await restarted_under_load(await open_stack(), 10)
