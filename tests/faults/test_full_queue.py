"""Forty parts at once meet a queue that nobody empties: 32 wait, 8 are refused, and each of the 40 can be explained."""

import asyncio

import httpx
import pytest

from policies.kinds import Role
from tests.support.ledger import agree, books_of, drained, sound
from tests.support.traffic import Site, site


async def receipts_of(here: Site, run: str) -> dict[str, tuple[str, str | None]]:
    """What the run's list of receipts says, by exchange, over all its pages."""
    found: dict[str, tuple[str, str | None]] = {}
    cursor = None
    while True:
        asked = {"limit": "15"} | ({"cursor": cursor} if cursor else {})
        answer = await here.client.get(f"/v1/runs/{run}/receipts", params=asked, headers=here.key)
        assert answer.status_code == httpx.codes.OK, answer.text
        page = answer.json()
        for item in page["items"]:
            assert item["exchange_id"] not in found
            found[item["exchange_id"]] = item["capture"], item["reason"]
        cursor = page["next"]
        if cursor is None:
            return found


@pytest.mark.long
async def test_forty_at_once_are_32_that_wait_and_8_that_are_refused_and_all_are_explained(open_stack):
    stack = await open_stack()
    async with site(stack) as here:
        runtime = await here.runtime("run")
        said = [runtime.observe(b'{"part": %d}' % number) for number in range(40)]
        await asyncio.gather(*map(runtime.put, said))
        assert runtime.counts() == {"queued": 32, "capacity_exceeded": 8}
        refused = runtime.told("not_captured")
        assert {(each.status, each.recorded) for each in refused} == {(429, True)}

        # Nobody who waits is put out for a newcomer, and the count outlives the process that counted.
        await here.restart_api()
        stack.procs[0].kill()
        late = await runtime.put(runtime.observe(b"{}"))
        assert (late.status, late.reason) == (429, "capacity_exceeded")
        agree(runtime, await books_of(stack, runtime))
        for each in runtime.told("queued"):
            assert (await runtime.receipt(each))["capture"] == "queued"
        for each in runtime.told("not_captured"):
            assert (await runtime.receipt(each))["reason"] == "capacity_exceeded"

        stack.writer()
        await drained(stack)
        books = await books_of(stack, runtime)
        agree(runtime, books)
        assert books.by_outcome() == {"stored": 32, "capacity_exceeded": 9}
        expected = {
            each.exchange: ("stored", None)
            if each.capture == "queued"
            else ("not_captured", "capacity_exceeded")
            for each in runtime.said.values()
        }
        assert await receipts_of(here, runtime.run) == expected

        reader = await stack.key(Role.REVIEWER, here.scope)
        gaps = (await here.client.get(f"/v1/runs/{runtime.run}/gaps", headers=reader)).json()["items"]
        named = {gap["exchange_id"]: gap["reason"] for gap in gaps if gap["exchange_id"]}
        assert named == {each.exchange: "capacity_exceeded" for each in runtime.told("not_captured")}
        run = (await here.client.get(f"/v1/runs/{runtime.run}", headers=reader)).json()
        assert run["counts"] == {"stored": 32, "not_captured": {"capacity_exceeded": 9}, "unaccounted": 0}
        # There is room again, and a refused identity may be posted again.
        again = await runtime.put(late, Prefer="wait=5")
        assert again.capture == "stored"
        await sound(stack)
