"""Bodies that are late, cut off or too large: one timer ends each at its own time, and nobody else's reading."""

import asyncio
from typing import Any

import pytest

from policies.reasons import Reason
from store.api.bodies import BodyReader
from store.errors import Refused

DEADLINE_S = 0.05


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


async def reason(reading: Any) -> Reason | None:
    try:
        await reading
    except Refused as refusal:
        return refusal.reason
    return None


async def test_a_body_comes_whole_in_however_many_pieces():
    reader = BodyReader(DEADLINE_S)
    assert await reader.read(Sender(b"abc"), 3) == b"abc"
    assert await reader.read(Sender(b"a", b"b", b"c"), 3) == b"abc"
    assert await reason(reader.read(Sender(b"a", b"b", b"c"), 2)) is Reason.PART_TOO_LARGE


async def test_each_late_body_is_ended_at_its_own_time():
    reader, loop = BodyReader(DEADLINE_S), asyncio.get_running_loop()
    began = loop.time()
    first = asyncio.ensure_future(reason(reader.read(Sender(b"a", whole=False), 9)))
    assert await reader.read(Sender(b"abc"), 9) == b"abc"
    await asyncio.sleep(DEADLINE_S / 2)
    second = asyncio.ensure_future(reason(reader.read(Sender(b"a", whole=False), 9)))
    assert await first is Reason.INTERRUPTED
    assert not second.done()
    assert await second is Reason.INTERRUPTED
    assert loop.time() - began >= DEADLINE_S * 1.5
    # And after a time without any.
    assert await reason(reader.read(Sender(b"a", whole=False), 9)) is Reason.INTERRUPTED
    assert not reader._reading
    assert not reader._late


async def test_who_is_ended_by_another_is_not_interrupted():
    reader = BodyReader(DEADLINE_S)
    task = asyncio.ensure_future(reader.read(Sender(b"a", whole=False), 9))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_disconnect_interrupts():
    async def gone() -> Any:
        return {"type": "http.disconnect"}

    assert await reason(BodyReader(DEADLINE_S).read(gone, 9)) is Reason.INTERRUPTED
