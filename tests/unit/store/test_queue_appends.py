"""How callers' frames travel together: without a server, with a script that answers what a test says."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest
from redis import exceptions

from policies.limits import ShardLimits
from policies.reasons import Reason
from store.errors import Unavailable
from store.queue import appends
from store.queue.appends import Appends
from store.queue.connection import FLIGHTS
from store.queue.keys import all_shards
from store.queue.scripts import packed
from tests.support.queue_frames import new_key, part

pytestmark = pytest.mark.asyncio


class Server:
    """Stands where the append script is called; keeps how many frames came with each call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[int] = []
        self.under_way = self.most_under_way = 0
        self.answer: Callable[[int], Awaitable[list[int]]] = self.queued
        monkeypatch.setattr(appends, "APPEND", self)

    async def queued(self, frames: int) -> list[int]:
        await asyncio.sleep(0.001)
        return [1] * frames

    async def run(self, _client: Any, _keys: Sequence[str], arguments: Sequence[Any]) -> list[int]:
        self.calls.append(frames := b"".join(arguments[4::2]).count(b"header"))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            return await self.answer(frames)
        finally:
            self.under_way -= 1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


@pytest.fixture
def sending() -> Appends:
    return Appends(None, all_shards(1), ShardLimits())  # type: ignore[arg-type]


def frame(sealed: int = 100) -> Any:
    return msgspec.structs.replace(part(new_key(), sealed=sealed), header=b"header")


async def test_all_who_come_in_one_turn_travel_in_one_call(server: Server, sending: Appends) -> None:
    answers = await asyncio.gather(*(sending.append([frame()]) for _ in range(100)))
    assert [len(each) for each in answers] == [1] * 100
    assert server.calls == [100]


async def test_no_more_calls_are_under_way_than_allowed(server: Server, sending: Appends) -> None:
    async def post(n: int) -> None:
        await asyncio.sleep(n / 5_000)
        await sending.append([frame()])

    await asyncio.gather(*(post(n) for n in range(100)))
    assert server.most_under_way <= FLIGHTS
    assert sum(server.calls) == 100
    assert len(server.calls) < 100


async def test_a_call_is_bounded_in_frames_and_bytes(server: Server, sending: Appends) -> None:
    await asyncio.gather(*(sending.append([frame()] * 300) for _ in range(3)))
    assert max(server.calls) <= 512
    server.calls.clear()
    await asyncio.gather(*(sending.append([frame(300_000)] * 3) for _ in range(4)))
    assert max(server.calls) <= 3
    # One frame that is larger than a call may be still travels, alone.
    server.calls.clear()
    await sending.append([frame(2_000_000), frame()])
    assert server.calls == [1, 1]


async def test_a_failed_call_fails_its_callers_and_nobody_else(server: Server, sending: Appends) -> None:
    failures = iter([exceptions.ConnectionError("gone"), None])

    async def once(frames: int) -> list[int]:
        await asyncio.sleep(0.001)
        if (fault := next(failures)) is not None:
            raise fault
        return [1] * frames

    server.answer = once
    first = asyncio.create_task(sending.append([frame()]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    second = asyncio.create_task(sending.append([frame()]))
    with pytest.raises(Unavailable):
        await first
    assert len(await second) == 1


async def test_what_one_call_of_several_was_answered_stands_when_another_fails(
    server: Server, sending: Appends
) -> None:
    failures = iter([None, exceptions.ConnectionError("gone"), None])

    async def second(frames: int) -> list[int]:
        if (fault := next(failures)) is not None:
            raise fault
        return [1] * frames

    server.answer = second
    answers = await sending.append([frame(900_000), frame(900_000), frame(900_000)])
    assert [answer.outcome for answer in answers] == ["queued", "refused", "queued"]
    assert (answers[1].reason, answers[1].recorded) == (Reason.QUEUE_UNAVAILABLE, False)


async def test_behind_a_silent_server_nobody_waits_a_second_time(server: Server, sending: Appends) -> None:
    async def silent(frames: int) -> list[int]:
        await asyncio.sleep(0.5)
        raise exceptions.TimeoutError

    server.answer = silent
    tasks = []
    for _ in range(FLIGHTS + 5):
        tasks.append(asyncio.create_task(sending.append([frame()])))
        await asyncio.sleep(0.001)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {Unavailable}
    assert len(server.calls) == FLIGHTS


async def test_whoever_went_before_the_call_left_is_not_sent(server: Server, sending: Appends) -> None:
    staying, going = (asyncio.create_task(sending.append([frame()])) for _ in range(2))
    await asyncio.sleep(0)
    going.cancel()
    await asyncio.gather(staying, going, return_exceptions=True)
    assert server.calls == [1]


async def test_a_fault_of_ours_is_unavailable_to_callers_and_not_swallowed(
    server: Server, sending: Appends
) -> None:
    async def broken(frames: int) -> list[int]:
        raise LookupError

    server.answer = broken
    seen: list[BaseException | None] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context.get("exception")))
    with pytest.raises(Unavailable) as fault:
        await sending.append([frame()])
    assert fault.value.cause == "LookupError"
    await sending.close()


async def test_no_frames_are_no_call(server: Server, sending: Appends) -> None:
    assert await sending.append([]) == []
    assert server.calls == []


async def test_a_command_is_written_as_redis_reads_it() -> None:
    assert (
        packed(["SET", b"\x00\xff", 12, ""]) == b"*4\r\n$3\r\nSET\r\n$2\r\n\x00\xff\r\n$2\r\n12\r\n$0\r\n\r\n"
    )
