"""One call seen by several adapters makes one exchange: here they meet.

The outermost adapter begins the call, those further in find it by a context variable. Each physical try is one attempt,
whoever sees it; the request is captured once a call, by who sees it first, and the output once a try, by who is nearest
to the wire. Nothing here raises or waits.
"""

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any, Final

import msgspec

from custody_client.adapters import around
from custody_client.attempts import Attempt
from custody_client.current import current_run
from custody_client.runs import Run

_current: Final[ContextVar["Call | None"]] = ContextVar("custody_call", default=None)
_left: Final[ContextVar["tuple[Call, Mark] | None"]] = ContextVar("custody_left", default=None)

_REMEMBERED: Final = 4096
_CAPTURED: Final = ""
_answered: Final[OrderedDict[tuple[str, str], Counter[str]]] = OrderedDict()
_late: Final[deque[tuple[str, str]]] = deque()
_lock: Final = threading.Lock()


class Mark(msgspec.Struct, frozen=True):
    """By what a try that an SDK makes again is known, where nobody sees the SDK's own loop."""

    key: object
    """Equal for all tries of one call: an idempotency key, or path and length."""
    retry: int
    """How many tries there were before, as the SDK counts them."""


class Try:
    """One physical try, and which adapters have seen it."""

    __slots__ = ("_ended", "_layers", "attempt", "claimed")

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self._layers: set[str] = set()
        self.claimed = False
        self._ended = False

    @property
    def seen(self) -> bool:
        """Whether any adapter saw it go out."""
        return bool(self._layers)

    def join(self, layer: str) -> bool:
        """Say that this adapter sees it too; False if it is over or was seen by it already: then it is another."""
        if self._ended or layer in self._layers:
            return False
        self._layers.add(layer)
        return True

    def leave(self, layer: str) -> None:
        """Let this adapter see it again, as after a redirect, which is no try of its own."""
        self._layers.discard(layer)

    def claim(self) -> bool:
        """Take over its output, once; who is nearest to the wire is asked first, as the answer comes from there."""
        claimed, self.claimed = self.claimed, True
        return not claimed

    def end(self, settlement: str | None) -> None:
        """Say how it ended, once; None where nobody could tell."""
        if not self._ended:
            self._ended = True
            if settlement is not None:
                self.attempt.settled(settlement)


class Call:
    """One exchange, seen by however many adapters. `run` and `exchange` are the core's."""

    __slots__ = ("_asked", "_first", "_tries", "exchange", "run")

    def __init__(self, run: Run, first: int = 0) -> None:
        self.run = run
        self.exchange = run.exchange()
        around.began(run.run_id)
        self._first = first
        self._tries: list[Try] = []
        self._asked = False

    @contextmanager
    def entered(self) -> Iterator["Call"]:
        """Let adapters further in find this call."""
        token = _current.set(self)
        try:
            yield self
        finally:
            _leave(self, token)

    def request(self, content: Any, *, vantage: str = "sdk", completeness: str = "complete") -> None:
        """Capture what was asked; the first one wins. A callable is called only where the run admits it."""
        if not self._asked:
            self._asked = True
            self.last.attempt.capture_request(content, vantage=vantage, completeness=completeness)

    def attempt(self, layer: str = "") -> Try:
        """Return the try that this adapter sees now: the one begun last, or, if it saw that before, the next."""
        last = self.last
        if not last.join(layer):
            last = self._next()
            last.join(layer)
        return last

    def output(self, content: Any, *, vantage: str = "sdk", settlement: str | None = "completed") -> None:
        """Capture the last try's output as it is, unless somebody nearer to the wire does, and end the try."""
        last = self.last
        if last.claim():
            last.attempt.capture_output(content, vantage=vantage)
            last.end(settlement)

    def broke(self, error: BaseException, *, watched: bool = True) -> None:
        """Say that the call ended by an error. A try that nobody saw go out was not sent, if anybody looked."""
        last = self.last
        if watched and not last.seen:
            last.attempt.not_dispatched()
        if not last.claimed:
            last.end(settlement_of(error))

    @property
    def last(self) -> Try:
        """The try that was begun last."""
        return self._tries[-1] if self._tries else self._next()

    def _next(self) -> Try:
        named = str(self._first + len(self._tries) + 1) if self._first else None
        self._tries.append(Try(self.exchange.attempt(named)))
        return self._tries[-1]


def _leave(call: Call, token: "Token[Call | None]") -> None:
    """Make the call current that was before; in another context than that of `entered` there is none to go back to."""
    try:
        _current.reset(token)
    except ValueError:
        if _current.get() is call:
            _current.set(None)


def current_call() -> Call | None:
    """Return the call that an adapter further out has begun in this context."""
    return _current.get()


def running(run: Run | None = None) -> Run | None:
    """Choose the run that a call belongs to: the one that was named, that of the call around it, the current one."""
    if run is not None:
        return run
    call = _current.get()
    return call.run if call is not None else current_run()


def begin(run: Run, mark: Mark | None = None) -> Call:
    """Return the call that this is a part of, or begin one; with a mark also the one that is tried again here."""
    call = _current.get()
    if call is not None and call.run is run:
        return call
    left = _left.get()
    if left is not None:
        _left.set(None)
        call, before = left
        if mark and call.run is run and (before.key, before.retry + 1) == (mark.key, mark.retry):
            return call
    return Call(run, mark.retry if mark else 0)


def may_come_again(call: Call, mark: Mark) -> None:
    """Remember, in this thread or task, a try that failed: the SDK may try again."""
    _left.set((call, mark))


def settlement_of(error: BaseException) -> str:
    """Tell a call that was given up by its owner from one that failed."""
    if isinstance(error, Exception):
        return "failed"
    return "cancelled"  # asyncio.CancelledError, GeneratorExit, KeyboardInterrupt


def remember(run: Run, response_id: str) -> None:
    """Note that this response is captured, for those who see it only afterwards.

    May be called anywhere, also by a finaliser in the midst of itself (a response that was dropped unread): it never
    waits for the lock, and whoever holds that gathers also what others left.
    """
    _late.append((run.run_id, response_id))
    if _lock.acquire(blocking=False):
        try:
            _gather()
        finally:
            _lock.release()


def _gather() -> None:
    while _late:
        _answered.setdefault(_late.popleft(), Counter())[_CAPTURED] += 1
    while len(_answered) > _REMEMBERED:
        _answered.popitem(last=False)


def seen(run: Run, response_id: str, by: str | None = None) -> bool:
    """Say whether another adapter captured this response; what was captured long ago is forgotten.

    Ids of responses come again: who names himself is told so no more often than it was captured.
    """
    with _lock:
        _gather()
        times = _answered.get((run.run_id, response_id))
        if times is None or by is None:
            return times is not None
        told = times[by] < times[_CAPTURED]
        times[by] += told
        return told
