"""What was read elsewhere, remembered for a moment: bounded, at most `age_s` old, read once for all who ask at once.

While the other side is away the last good answer serves on, for as long as the value itself allows; whoever asks
meanwhile does not wait for the outage. Without such a grace an outage is an outage.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from store.clock import monotonic
from store.errors import Unavailable

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

# How long a caller with an answer in hand waits for a fresher one before it takes the other side for away.
PATIENCE_S: Final = 0.5
# How often an absent side is tried again.
_RETRY_S: Final = 1.0
# From which part of its age on a value that is asked for is read again in advance.
_EARLY: Final = 0.8


def _no_grace(_: object) -> float:
    return 0.0


@dataclass(slots=True)
class _Kept(Generic[Value]):
    value: Value
    good_at: float
    failed_at: float | None = None


class LastKnown(Generic[Key, Value]):
    """A bounded memory in front of `read`, which answers None for what is not there (and that is not remembered)."""

    def __init__(
        self,
        read: Callable[[Key], Awaitable[Value | None]],
        *,
        age_s: float,
        size: int,
        grace_s: Callable[[Value], float] = _no_grace,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._read = read
        self._age_s = age_s
        self._size = size
        self._grace_s = grace_s
        self._clock = clock
        self._kept: OrderedDict[Key, _Kept[Value]] = OrderedDict()
        self._reading: dict[Key, asyncio.Task[Value | Unavailable | None]] = {}

    async def get(self, key: Key) -> Value | None:
        """Return the value, None where there is none; Unavailable where that cannot be told and no grace is left."""
        kept = self._kept.get(key)
        if kept is None:
            return _told(await asyncio.shield(self._task(key)))
        now = self._clock()
        age_s = now - kept.good_at
        if age_s < self._age_s:
            self._kept.move_to_end(key)
            if age_s > _EARLY * self._age_s and kept.failed_at is None:
                # Whoever asks often never waits: the next answer is there before this one is too old.
                _ = self._task(key)
            return kept.value
        if now - kept.good_at >= self._age_s + self._grace_s(kept.value):
            return _told(await asyncio.shield(self._task(key)))
        return await self._within_grace(key, kept, now)

    def settled(self, key: Key) -> Value | None:
        """Return what is remembered as long as nobody need ask for it again: what was made of it stands as well."""
        kept = self._kept.get(key)
        return (
            kept.value if kept is not None and self._clock() - kept.good_at < _EARLY * self._age_s else None
        )

    def last(self, key: Key) -> Value | None:
        """Return what is remembered, however old."""
        kept = self._kept.get(key)
        return None if kept is None else kept.value

    def drop(self, key: Key) -> None:
        """Forget a value at once; what is being read now is not remembered either."""
        self._kept.pop(key, None)
        self._reading.pop(key, None)

    def clear(self) -> None:
        """Forget everything at once."""
        self._kept.clear()
        self._reading.clear()

    async def _within_grace(self, key: Key, kept: _Kept[Value], now: float) -> Value | None:
        if kept.failed_at is not None:
            # Known to be away: ask again behind the caller's back, now and then.
            if now - kept.failed_at >= _RETRY_S:
                _ = self._task(key)
            return kept.value
        task = self._task(key)
        await asyncio.wait({task}, timeout=PATIENCE_S)
        if not task.done():
            kept.failed_at = now
            return kept.value
        answer = task.result()
        return kept.value if isinstance(answer, Unavailable) else answer

    def _task(self, key: Key) -> "asyncio.Task[Value | Unavailable | None]":
        task = self._reading.get(key)
        if task is None:
            task = self._reading[key] = asyncio.get_running_loop().create_task(self._refresh(key))
        return task

    async def _refresh(self, key: Key) -> "Value | Unavailable | None":
        # The outage is an answer here, not an exception: nobody may be waiting for it any more.
        started = self._clock()
        me = asyncio.current_task()
        answer: Value | Unavailable | None
        try:
            answer = await self._read(key)
        except Unavailable as outage:
            answer = outage
        finally:
            current = self._reading.get(key) is me
            if current:
                del self._reading[key]
        if current:
            self._remember(key, answer, started)
        return answer

    def _remember(self, key: Key, answer: "Value | Unavailable | None", started: float) -> None:
        if isinstance(answer, Unavailable):
            if key in self._kept:
                self._kept[key].failed_at = self._clock()
        elif answer is None:
            self._kept.pop(key, None)
        else:
            # As old as the question, not as the answer.
            self._kept[key] = _Kept(answer, started)
            self._kept.move_to_end(key)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)


def _told(answer: "Value | Unavailable | None") -> Value | None:
    if isinstance(answer, Unavailable):
        raise answer
    return answer
