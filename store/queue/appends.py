"""The hot path: frames of concurrent callers travel together, in one script call at a time and shard.

A command costs this process 150 µs or more, whatever it carries. So a call takes all that has come in since the
last one left, within bounds; under load that is many callers' frames, alone it is one, and nobody waits for others.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from redis import exceptions

from policies.limits import ShardLimits
from policies.reasons import Reason
from store.errors import Unavailable
from store.queue.connection import FLIGHTS, SILENCE_S, Link, translated
from store.queue.frames import Answer, Frame, PartFrame
from store.queue.keys import RunKey, ShardKeys, shard_of
from store.queue.scripts import APPEND
from store.queue.wire import append_call, read_answers

# What one call may carry: the server serves nobody else meanwhile.
_FRAMES: Final = 512
_BYTES: Final = 1024 * 1024


@dataclass(slots=True, eq=False)
class _Load:
    """What one caller wants to send in one piece."""

    frames: Sequence[Frame]
    size_bytes: int
    answers: "asyncio.Future[list[Answer]]"


@dataclass(slots=True, eq=False)
class _Lane:
    """What waits to be sent to one shard, and how many calls are under way."""

    keys: ShardKeys
    waiting: deque[_Load] = field(default_factory=deque)
    flights: set["asyncio.Task[None]"] = field(default_factory=set)
    called: bool = False

    def board(self) -> list[_Load]:
        """Take the loads of one call, passing over those whose caller has gone."""
        loads: list[_Load] = []
        frames = size_bytes = 0
        while self.waiting:
            load = self.waiting[0]
            frames += len(load.frames)
            size_bytes += load.size_bytes
            if loads and (frames > _FRAMES or size_bytes > _BYTES):
                break
            self.waiting.popleft()
            if not load.answers.done():
                loads.append(load)
        return loads


class Appends:
    """Sends frames to their shards and hands each caller its own answers."""

    def __init__(self, client: Link, keys: Mapping[int, ShardKeys], limits: ShardLimits) -> None:
        self._client = client
        self._limits = limits
        self._lanes = [_Lane(of_shard) for of_shard in keys.values()]

    async def close(self) -> None:
        """Let the calls under way end; whoever still waits hears that the queue is unavailable."""
        for lane in self._lanes:
            _fail(lane.waiting, _unavailable("closed"))
            lane.waiting.clear()
            await asyncio.gather(*lane.flights)

    async def append(self, frames: Sequence[Frame]) -> list[Answer]:
        """Queue frames; the answers come in their order. Unavailable only if none of them got one."""
        if not frames:
            return []
        if whole := self._whole(frames):
            return await self._sent(*whole)
        pieces = self._pieces(frames)
        sent = await asyncio.gather(
            *(self._sent(lane, load) for _, lane, load in pieces), return_exceptions=True
        )
        found: dict[int, Answer] = {}
        for (places, _, _), outcome in zip(pieces, sent, strict=True):
            if isinstance(outcome, BaseException):
                if not isinstance(outcome, Unavailable) or all(
                    isinstance(each, Unavailable) for each in sent
                ):
                    raise outcome
                # What other pieces were answered stands; whoever asks hears the outage where there was one.
                found |= dict.fromkeys(places, Answer("refused", outcome.reason))
            else:
                found |= dict(zip(places, outcome, strict=True))
        return [found[place] for place in range(len(frames))]

    def _whole(self, frames: Sequence[Frame]) -> tuple[_Lane, _Load] | None:
        """Return a load of all frames where they are of one run and fit one call, as nearly always."""
        key, size_bytes = frames[0].key, 0
        for frame in frames:
            if frame.key is not key:
                return None
            size_bytes += _size(frame)
        if len(frames) > _FRAMES or (size_bytes > _BYTES and len(frames) > 1):
            return None
        return self._lanes[self._shard(key)], _load(frames, size_bytes)

    def _pieces(self, frames: Sequence[Frame]) -> list[tuple[list[int], _Lane, _Load]]:
        """Split by shard, and so that each piece fits one call."""
        pieces: list[tuple[list[int], _Lane, _Load]] = []
        open_of: dict[int, tuple[list[int], list[Frame], int]] = {}
        for place, frame in enumerate(frames):
            shard = self._shard(frame.key)
            size = _size(frame)
            places, piece, size_bytes = open_of.get(shard, ([], [], 0))
            if piece and (len(piece) == _FRAMES or size_bytes + size > _BYTES):
                pieces.append(self._piece(shard, places, piece, size_bytes))
                places, piece, size_bytes = [], [], 0
            places.append(place)
            piece.append(frame)
            open_of[shard] = (places, piece, size_bytes + size)
        pieces += [self._piece(shard, *rest) for shard, rest in open_of.items()]
        return pieces

    def _piece(
        self, shard: int, places: list[int], frames: list[Frame], size_bytes: int
    ) -> tuple[list[int], _Lane, _Load]:
        return places, self._lanes[shard], _load(frames, size_bytes)

    def _shard(self, key: RunKey) -> int:
        return 0 if len(self._lanes) == 1 else shard_of(key, len(self._lanes))

    async def _sent(self, lane: _Lane, load: _Load) -> list[Answer]:
        lane.waiting.append(load)
        if not lane.called:
            # At the end of this turn of the loop, so that all who came in it travel together.
            lane.called = True
            asyncio.get_running_loop().call_soon(self._depart, lane)
        return await load.answers

    def _depart(self, lane: _Lane) -> None:
        lane.called = False
        while lane.waiting and len(lane.flights) < FLIGHTS:
            if loads := lane.board():
                flight = asyncio.get_running_loop().create_task(self._fly(lane, loads))
                lane.flights.add(flight)

    async def _fly(self, lane: _Lane, loads: Sequence[_Load]) -> None:
        try:
            await self._call(lane, loads)
        except Unavailable as fault:
            _fail(loads, fault)
            if fault.cause == exceptions.TimeoutError.__name__:
                # A server that is silent keeps everybody waiting: those behind have waited long enough.
                _fail(lane.waiting, fault)
        except BaseException as fault:
            _fail(loads, _unavailable(type(fault).__name__))
            raise
        finally:
            task = asyncio.current_task()
            if task is not None:
                lane.flights.discard(task)
            self._depart(lane)

    async def _call(self, lane: _Lane, loads: Sequence[_Load]) -> None:
        frames = loads[0].frames if len(loads) == 1 else [frame for load in loads for frame in load.frames]
        keys, arguments, places = append_call(lane.keys, self._limits, frames)
        with translated():
            # One deadline for all of it: redis-py's own, one for each step, cost a third of the call.
            async with asyncio.timeout(SILENCE_S):
                answers = read_answers(await APPEND.run(self._client, keys, arguments), places)
        at = 0
        for load in loads:
            until = at + len(load.frames)
            if not load.answers.done():
                load.answers.set_result(answers[at:until])
            at = until


def _load(frames: Sequence[Frame], size_bytes: int) -> _Load:
    return _Load(frames, size_bytes, asyncio.get_running_loop().create_future())


def _size(frame: Frame) -> int:
    return len(frame.header) + (len(frame.sealed) if isinstance(frame, PartFrame) else 0)


def _fail(loads: Sequence[_Load] | deque[_Load], fault: Unavailable) -> None:
    for load in loads:
        if not load.answers.done():
            # One exception object each: raising gathers a traceback on it.
            load.answers.set_exception(_unavailable(fault.cause))


def _unavailable(cause: str) -> Unavailable:
    return Unavailable(Reason.QUEUE_UNAVAILABLE, cause=cause)
