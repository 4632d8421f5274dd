"""Hears what writers settle and what is narrowed: one subscription a process, however many wait."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from redis import exceptions

from policies.reasons import Reason
from store.errors import Unavailable
from store.queue.connection import Links, translated
from store.queue.frames import Settled
from store.queue.keys import RUNS_CHANNEL, RunKey
from store.queue.runs import key_of

_SETTLED: Final = "custody:{q*}:settled"
# A part can be settled before its poster has begun to wait: so many are remembered for the latecomers.
_REMEMBERED: Final = 4096
_LISTEN_S: Final = 1.0
# After so many of these in silence the server is asked whether it is there, and after so many it is not.
_SILENT_ASKED: Final = 10
_SILENT_GONE: Final = 15
_PAUSES_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)


class Waiters:
    """Wakes whoever waits for a part. Losing Redis loses at most some wake-ups, and a wait ends by its time."""

    def __init__(self, links: Links, most: int) -> None:
        self._links = links
        self._most = most
        self._waiting: dict[str, set[asyncio.Future[Settled]]] = {}
        self._count = 0
        # As it was said: hardly ever does anybody wait, and then reading it is for nothing.
        self._recent: deque[bytes] = deque()
        self._recent_lines = 0
        self._narrowed: list[Callable[[RunKey], None]] = []
        self._listener: asyncio.Task[None] | None = None
        self._closing = False
        self.listening = asyncio.Event()

    async def wait(self, evidence: UUID, timeout_s: float) -> Settled | None:
        """Wait until a part is settled, or the time is over; None at once if too many wait."""
        self._listen()
        name = evidence.hex
        if (settled := self._heard_of(name)) is not None:
            return settled
        if self._count >= self._most:
            return None
        waiter: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, set()).add(waiter)
        self._count += 1
        try:
            async with asyncio.timeout(timeout_s):
                return await waiter
        except TimeoutError:
            return None
        finally:
            self._count -= 1
            self._gone(name, waiter)

    def on_narrowed(self, heard: Callable[[RunKey], None]) -> None:
        """Call `heard` for every run that is narrowed."""
        self._narrowed.append(heard)
        self._listen()

    async def close(self) -> None:
        """Stop listening."""
        # redis-py can turn a cancellation that meets it while it connects into an error of its own.
        self._closing = True
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)

    def _gone(self, name: str, waiter: "asyncio.Future[Settled]") -> None:
        waiters = self._waiting.get(name)
        if waiters is not None:
            waiters.discard(waiter)
            if not waiters:
                del self._waiting[name]

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = asyncio.get_running_loop().create_task(self._listen_for_ever())

    async def _listen_for_ever(self) -> None:
        failures = 0
        while not self._closing:
            try:
                with translated():
                    await self._hear()
            except Unavailable:
                failures = 0 if self.listening.is_set() else failures + 1
                self.listening.clear()
                await asyncio.sleep(_PAUSES_S[min(failures, len(_PAUSES_S) - 1)])

    async def _hear(self) -> None:
        renewed = self._links.renewed
        async with self._links.readers.pubsub() as subscription:
            await subscription.psubscribe(_SETTLED)
            await subscription.subscribe(RUNS_CHANNEL)
            silent = 0
            while not self._closing:
                if self._links.renewed != renewed:
                    # A server that is no primary any more says nothing on its own, and is there when it is asked.
                    raise exceptions.ConnectionError
                message = await subscription.get_message(timeout=_LISTEN_S)
                if message is not None:
                    silent = 0
                    self._heard(message)
                    continue
                silent += 1
                if silent == _SILENT_ASKED:
                    await subscription.ping()
                elif silent > _SILENT_GONE:
                    # Its machine is gone without a word, and this connection would be listened to for ever.
                    raise TimeoutError

    def _heard(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "subscribe":
            self.listening.set()
            return
        # Whoever has the password can publish anything; what is not ours must not end the listening.
        with suppress(ValueError):
            if message["type"] == "pmessage":
                self._settled(message["data"])
            elif message["type"] == "message":
                self._tell(key_of(message["data"].decode()))

    def _settled(self, said: bytes) -> None:
        self._recent.append(said)
        self._recent_lines += _lines(said)
        while self._recent_lines > _REMEMBERED:
            self._recent_lines -= _lines(self._recent.popleft())
        for line in said.splitlines() if self._waiting else ():
            evidence, settled = _read(line)
            for waiter in self._waiting.get(evidence, ()):
                if not waiter.done():
                    waiter.set_result(settled)

    def _heard_of(self, name: str) -> Settled | None:
        """Return what was said of a part a moment ago."""
        wanted = name.encode()
        for said in reversed(self._recent):
            at = said.find(wanted)
            if at >= 0:
                with suppress(ValueError):
                    return _read(said[at:].partition(b"\n")[0])[1]
        return None

    def _tell(self, key: RunKey) -> None:
        for heard in self._narrowed:
            heard(key)


def _lines(said: bytes) -> int:
    return said.count(b"\n") + 1


def _read(line: bytes) -> tuple[str, Settled]:
    evidence, outcome, reason = line.decode().split(" ")
    return evidence, Settled(outcome, Reason(reason) if reason else None)
