"""One core, two drivers: a generator asks for calls of the runtime's functions; a driver makes them.

Promised: the core is the same for `drive` and `adrive`, whatever a function raises comes back into the core where it
asked, and a core that has begun is driven to its end. Not promised: that a synchronous function can be interrupted; a
limit of time ends only what is awaited.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class Ask:
    """A call of one of the runtime's functions; `to_the_end`: not broken off when its caller is cancelled.

    A cancellation that waited for one comes back into the core at the next call that may be broken off, instead of it.
    """

    function: Callable[..., object]
    arguments: tuple[object, ...]
    timeout_s: float | None = None
    to_the_end: bool = False


@dataclass(frozen=True)
class Wait:
    """Wait until something else in this process is over; `loop`: the event loop it goes on, None if on none."""

    until: Future[Any]
    loop: asyncio.AbstractEventLoop | None = None


Steps: TypeAlias = Generator[Ask | Wait, Any, Result]


class MustBeAwaited(TypeError):
    """A function of the runtime gave an awaitable where nothing awaits."""


class GivenUp(RuntimeError):
    """What a function waited for was cancelled by somebody else: its caller was not, and goes on."""


class WouldWaitForEver(RuntimeError):
    """A synchronous entry was called on an event loop, and had to wait for what goes on only if that loop does."""


def loop_here() -> asyncio.AbstractEventLoop | None:
    """Return the event loop (asyncio) that runs in this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def ask(
    function: Callable[..., object],
    *arguments: object,
    timeout_s: float | None = None,
    to_the_end: bool = False,
) -> Steps[Any]:
    """Ask for one call, from within a core."""
    return (yield Ask(function, arguments, timeout_s, to_the_end))


def unless_cancelled() -> Steps[None]:
    """Go on, unless a cancellation waited for what was brought to its end: that is raised here, within a core."""
    yield from ask(_nothing)


def _nothing() -> None:
    """Do nothing: a call that may be broken off."""


def drive(steps: Steps[Result], error: BaseException | None = None) -> Result:
    """Make the calls in this thread.

    Thrown into the core: MustBeAwaited for an awaitable, WouldWaitForEver for what only this thread's loop can end.
    """
    try:
        return _driven(steps, error)
    except BaseException as left:
        # An interrupt between two lines of the driver: the core has yet to tidy up.
        if inspect.getgeneratorstate(steps) == inspect.GEN_CLOSED:
            raise
        _driven(steps, left)
        raise


def _driven(steps: Steps[Result], error: BaseException | None) -> Result:
    answer: object = None
    while True:
        try:
            asked = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return] # a generator's value is typed at its own end only
        error = None
        try:
            answer = _called(asked)
        except GeneratorExit:
            # Thrown in as it is it would close the core, which then could not tidy up.
            error = RuntimeError("a GeneratorExit came out of a function")
        except BaseException as raised:  # noqa: BLE001 - thrown into the core, which raises it again
            error = raised


def _called(asked: Ask | Wait) -> object:
    if isinstance(asked, Wait):
        if asked.loop is not None and asked.loop is loop_here():
            raise WouldWaitForEver(
                "what is under way on this event loop must be awaited: use the asynchronous entry"
            )
        return asked.until.result()
    answer = asked.function(*asked.arguments)
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise MustBeAwaited("this function must be awaited: use the asynchronous entry")
    return answer


async def adrive(steps: Steps[Result]) -> Result:
    """Make the calls in this task, awaiting what must be; what is not awaitable is called as it is, on the loop."""
    calls = _Calls()
    answer: object = None
    error: BaseException | None = None
    while True:
        try:
            asked = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            result: Result = end.value
            break
        except Exception as left:
            if calls.cancelled is not None:
                # Whoever cancelled waits for that; what the core raised besides is kept as its cause.
                raise calls.cancelled from left
            raise
        error = None
        try:
            answer = await calls.made(asked)
        except GeneratorExit:
            # The loop is gone and nothing can be awaited any more: the core tidies up as far as that goes.
            with suppress(asyncio.CancelledError):
                drive(steps, asyncio.CancelledError())
            raise
        except BaseException as raised:  # noqa: BLE001 - thrown into the core, which raises it again
            error = raised
    if calls.cancelled is not None:
        raise calls.cancelled
    return result


class _Calls:
    """The calls of one asynchronous drive, and the cancellation that had to wait for one of them."""

    def __init__(self) -> None:
        self.cancelled: asyncio.CancelledError | None = None
        self._waits = False
        self._seen = 0

    async def made(self, asked: Ask | Wait) -> object:
        if self.cancelled is not None and self._waits and not (isinstance(asked, Ask) and asked.to_the_end):
            self._waits = False
            raise self.cancelled
        if isinstance(asked, Wait):
            # Shielded: who stops waiting must not end what others wait for.
            return await asyncio.shield(asyncio.wrap_future(asked.until))
        try:
            answer = asked.function(*asked.arguments)
            if not inspect.isawaitable(answer):
                return answer
            if asked.to_the_end:
                return await self._to_the_end(answer, asked.timeout_s)
            return await _awaited(answer, asked.timeout_s)
        except asyncio.CancelledError as error:
            if self._is_of_this_task():
                raise
            raise GivenUp("what a function waited for was cancelled") from error

    def _is_of_this_task(self) -> bool:
        """Say whether this task was cancelled since this was last asked; at first also if it was before it came here.

        That one may not have reached it yet, and to keep it back would be worse than to take another for it.
        """
        before, self._seen = self._seen, _cancellations()
        return self._seen > before

    async def _to_the_end(self, awaitable: Awaitable[object], timeout_s: float | None) -> object:
        task = asyncio.ensure_future(_ended(awaitable, timeout_s))
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as cancelled:
                self.cancelled, self._waits = cancelled, True
                self._seen = _cancellations()
        answer, raised = task.result()
        if raised is not None:
            raise raised
        return answer


def _cancellations() -> int:
    """Return how often this task was cancelled, and not taken back."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


async def _ended(
    awaitable: Awaitable[object], timeout_s: float | None
) -> tuple[object, BaseException | None]:
    """Await in a task of its own: a KeyboardInterrupt that left it would end the loop before the core could tidy up."""
    try:
        return await _awaited(awaitable, timeout_s), None
    except BaseException as raised:  # noqa: BLE001 - raised where the call was asked for
        return None, raised


async def _awaited(awaitable: Awaitable[object], timeout_s: float | None) -> object:
    async with asyncio.timeout(timeout_s):
        return await awaitable
