"""Many who ask at once are served in few groups, each gets their own answer, and nobody is overlooked."""

import asyncio
from collections.abc import Sequence

import pytest

from store.services.together import Together


class Desk:
    """Doubles numbers, as many groups at a time as it has doors open; a negative number breaks its group."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.at_once = 0
        self.most_at_once = 0
        self.open = asyncio.Event()
        self.open.set()

    async def act(self, items: Sequence[int]) -> Sequence[int]:
        self.groups.append(list(items))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.open.wait()
        await asyncio.sleep(0)
        self.at_once -= 1
        if min(items) < 0:
            raise ValueError("a negative one")
        return [item * 2 for item in items]


@pytest.mark.parametrize(("lanes", "most"), [(1, 3), (2, 3), (3, 100), (1, 1)])
async def test_each_gets_its_own_answer_and_groups_keep_their_bounds(lanes, most):
    desk = Desk()
    together = Together(desk.act, most=most, lanes=lanes)
    answers = await asyncio.gather(*(together.ask(item) for item in range(50)))
    assert answers == [item * 2 for item in range(50)]
    assert sorted(item for group in desk.groups for item in group) == list(range(50))
    assert max(len(group) for group in desk.groups) <= most
    assert desk.most_at_once <= lanes


async def test_who_comes_while_nothing_is_under_way_is_served_at_once_and_the_rest_together():
    desk = Desk()
    together = Together(desk.act, most=100)
    desk.open.clear()
    asked = [asyncio.create_task(together.ask(0))]
    await asyncio.sleep(0.01)
    asked += [asyncio.create_task(together.ask(item)) for item in range(1, 10)]
    await asyncio.sleep(0.01)
    desk.open.set()
    assert await asyncio.gather(*asked) == [item * 2 for item in range(10)]
    assert [len(group) for group in desk.groups] == [1, 9]


async def test_nobody_is_overlooked_whenever_they_come():
    desk = Desk()
    together = Together(desk.act, most=4, lanes=2)

    async def visitor(number: int) -> int:
        for _ in range(number % 7):
            await asyncio.sleep(0)
        return await together.ask(number)

    async with asyncio.timeout(10):
        for _ in range(30):
            answers = await asyncio.gather(*(visitor(number) for number in range(20)))
            assert answers == [number * 2 for number in range(20)]


async def test_a_fault_is_told_to_its_group_and_ends_with_it():
    desk = Desk()
    together = Together(desk.act, most=100)
    answers = await asyncio.gather(together.ask(1), together.ask(-1), return_exceptions=True)
    assert all(isinstance(answer, ValueError) for answer in answers)
    assert await together.ask(2) == 4


async def test_who_stops_waiting_takes_nothing_from_the_others():
    desk = Desk()
    together = Together(desk.act, most=100)
    desk.open.clear()
    impatient, patient = asyncio.create_task(together.ask(1)), asyncio.create_task(together.ask(2))
    await asyncio.sleep(0.01)
    impatient.cancel()
    desk.open.set()
    assert await patient == 4
    await together.close()
    assert desk.groups == [[1, 2]]
