"""Bodies that are late, cut off or too large: one timer ends each at its own time, and nobody else's reading."""

import asyncio
from typing import Any

import pytest

from policies.reasons import Reason
from store.api.bodies import BodyReader
from store.errors import Refused
from store.ids import new_scope_id
from store.services.bodies import STEP_BYTES, BodyBudget, Room

DEADLINE_S = 0.05
MANY = 40 * STEP_BYTES


class Sender:
    """Sends its pieces at once, and then says nothing more."""

    def __init__(self, *pieces: bytes, whole: bool = True) -> None:
        self._messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
        if whole:
            self._messages[-1]["more_body"] = False

    async def __call__(self) -> Any:
        if not self._messages:
            await asyncio.Event().wait()
        return self._messages.pop(0)


def room(most_bytes: int = 9, budget: BodyBudget | None = None) -> Room:
    """Room for a body of a scope of its own, of which nobody said how long it is."""
    return (budget or BodyBudget(MANY)).room(new_scope_id(), None, most_bytes)


async def read(reader: BodyReader, receive: Any, place: Room) -> bytes | memoryview:
    with place:
        return await reader.read(receive, place)


async def reason(reading: Any) -> Reason | None:
    try:
        await reading
    except Refused as refusal:
        return refusal.reason
    return None


async def test_a_body_comes_whole_in_however_many_pieces():
    reader = BodyReader(DEADLINE_S)
    assert await read(reader, Sender(b"abc"), room(3)) == b"abc"
    assert await read(reader, Sender(b"a", b"b", b"c"), room(3)) == b"abc"
    assert await reason(read(reader, Sender(b"a", b"b", b"c"), room(2))) is Reason.PART_TOO_LARGE


async def test_each_late_body_is_ended_at_its_own_time():
    reader, loop = BodyReader(DEADLINE_S), asyncio.get_running_loop()
    began = loop.time()
    first = asyncio.ensure_future(reason(read(reader, Sender(b"a", whole=False), room())))
    assert await read(reader, Sender(b"abc"), room()) == b"abc"
    await asyncio.sleep(DEADLINE_S / 2)
    second = asyncio.ensure_future(reason(read(reader, Sender(b"a", whole=False), room())))
    assert await first is Reason.INTERRUPTED
    assert not second.done()
    assert await second is Reason.INTERRUPTED
    assert loop.time() - began >= DEADLINE_S * 1.5
    # And after a time without any.
    assert await reason(read(reader, Sender(b"a", whole=False), room())) is Reason.INTERRUPTED
    assert not reader._reading
    assert not reader._late


async def test_who_is_ended_by_another_is_not_interrupted():
    reader = BodyReader(DEADLINE_S)
    task = asyncio.ensure_future(read(reader, Sender(b"a", whole=False), room()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_disconnect_interrupts():
    async def gone() -> Any:
        return {"type": "http.disconnect"}

    assert await reason(read(BodyReader(DEADLINE_S), gone, room())) is Reason.INTERRUPTED


async def test_a_body_without_a_length_has_room_for_what_came_and_no_more():
    budget, reader = BodyBudget(20 * STEP_BYTES), BodyReader(DEADLINE_S)
    silent = [
        asyncio.ensure_future(reason(read(reader, Sender(b"a", whole=False), room(MANY, budget))))
        for _ in range(4)
    ]
    await asyncio.sleep(0)
    # Four have a step each: half of the sixteen that they leave is for a fifth scope, more than that for its only body.
    fits, over = b"x" * (12 * STEP_BYTES), b"x" * (12 * STEP_BYTES + 1)
    assert await read(reader, Sender(b"x", fits[1:]), room(MANY, budget)) == fits
    assert await reason(read(reader, Sender(b"x", over[1:]), room(MANY, budget))) is Reason.CAPACITY_EXCEEDED
    assert {await each for each in silent} == {Reason.INTERRUPTED}
    # All of it is given back, whichever way a body ended.
    assert budget.held_bytes == 0


def test_room_of_a_scope_is_counted_over_all_its_bodies():
    budget, scope = BodyBudget(100), new_scope_id()
    with budget.room(scope, 30, 100), budget.room(scope, 20, 100):
        with pytest.raises(Refused, match="capacity_exceeded"), budget.room(scope, 1, 100):
            pass
        with budget.room(new_scope_id(), 25, 100):
            pass
    with budget.room(scope, 50, 100):
        pass
