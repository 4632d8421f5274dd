"""Reading runs: whoever asks while a call is under way is answered by the next one, together with all others.

Every capture needs the state of its run at most a second old. With many runs that is many questions, each of which
would cost as much as sealing a part.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from policies.reasons import Reason
from store.errors import Unavailable
from store.queue.connection import CALL_S, Link, translated
from store.queue.frames import Belonging, RunView
from store.queue.keys import RunKey, ShardKeys, shard_of
from store.queue.runs import read_sources
from store.queue.scripts import VIEW

# What one call may ask: the server serves nobody else meanwhile.
_RUNS: Final = 256

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)

_Answer = asyncio.Future[RunView | None]


@dataclass(slots=True, eq=False)
class _Lane:
    """Who waits for runs of one shard, and the call that is under way."""

    keys: ShardKeys
    waiting: dict[RunKey, _Answer] = field(default_factory=dict)
    flight: asyncio.Task[None] | None = None


class Views:
    """Answers what the queue knows of runs."""

    def __init__(self, client: Link, keys: Mapping[int, ShardKeys]) -> None:
        self._client = client
        self._lanes = [_Lane(of_shard) for of_shard in keys.values()]

    async def close(self) -> None:
        """Let the calls under way end; whoever still waits is answered by them."""
        await asyncio.gather(*(lane.flight for lane in self._lanes if lane.flight is not None))

    async def view(self, key: RunKey) -> RunView | None:
        """Read a run, without its identities."""
        lane = self._lanes[shard_of(key, len(self._lanes))]
        answer = lane.waiting.get(key)
        if answer is None:
            answer = lane.waiting[key] = asyncio.get_running_loop().create_future()
        if lane.flight is None:
            lane.flight = asyncio.get_running_loop().create_task(self._fly(lane))
        # Others may wait for the same answer.
        return await asyncio.shield(answer)

    async def _fly(self, lane: _Lane) -> None:
        try:
            while lane.waiting:
                asked = dict(list(lane.waiting.items())[:_RUNS])
                for key in asked:
                    del lane.waiting[key]
                await self._call(lane, asked)
        finally:
            lane.flight = None

    async def _call(self, lane: _Lane, asked: Mapping[RunKey, _Answer]) -> None:
        try:
            with translated():
                async with asyncio.timeout(CALL_S):
                    names = [lane.keys.run(key) for key in asked]
                    found: Sequence[Any] = await VIEW.run(self._client, names, ())
        except Unavailable as fault:
            for answer in asked.values():
                _fail(answer, fault.cause)
        except BaseException as fault:
            for answer in asked.values():
                _fail(answer, type(fault).__name__)
            raise
        else:
            for answer, fields in zip(asked.values(), found, strict=True):
                answer.set_result(_view(fields))


def _fail(answer: _Answer, cause: str) -> None:
    # One exception object each: raising gathers a traceback on it.
    answer.set_exception(Unavailable(Reason.QUEUE_UNAVAILABLE, cause=cause))
    # Everybody who asked may have gone; then nobody fetches it, which is no fault.
    _ = answer.exception()


def _view(fields: Sequence[Any]) -> RunView | None:
    run_uid, state, policy_version, retain_until, temporary, announced, *belonging = fields
    if run_uid is None:
        return None
    pairs = zip(announced[::2], announced[1::2], strict=True)
    return RunView(
        UUID(run_uid.decode()),
        state.decode(),
        int(policy_version),
        _EPOCH + int(retain_until) * _MS,
        temporary == b"1",
        {session.decode(): int(last) for session, last in pairs},
        _belonging(*belonging),
    )


def _belonging(owner: bytes | None, shared: bytes, sources: bytes) -> Belonging | None:
    if owner is None:
        return None
    return Belonging(owner.decode(), shared == b"1", read_sources(sources))
