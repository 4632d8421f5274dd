"""Reading a body: under a cap and a deadline, and never before the guard has decided."""

import asyncio
import mmap
from typing import Any, Final

from litestar.types import Receive

from policies.reasons import Reason
from store.errors import Refused
from store.services.bodies import Room

_DISCONNECT: Final = "http.disconnect"
# From here on pages of its own are worth their making.
_LARGE_BYTES: Final = 48 * 1024


class BodyReader:
    """Reads the bodies of one process; all of them have the same time to arrive.

    One timer watches over all, since a timer for each costs more than reading most bodies does.
    """

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        # Until when each may take, in the order in which they began, which is that of their ends.
        self._reading: dict[asyncio.Task[Any], float] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._watching = False

    async def read(self, receive: Receive, room: Room) -> bytes | memoryview:
        """Return the whole body; Refused as soon as there is no room for it, (interrupted) if cut off or slow."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        self._begin(task)
        try:
            piece, more = await _piece(receive)
            room.hold(len(piece))
            # Most bodies come in one piece: no copy then.
            return await _gathered(piece, receive, room) if more else piece
        except asyncio.CancelledError:
            # Somebody else may have ended the task at the same time, and is to be obeyed.
            if task in self._late and task.uncancel() == 0:
                raise Refused(Reason.INTERRUPTED) from None
            raise
        finally:
            del self._reading[task]
            self._late.discard(task)

    def _begin(self, task: asyncio.Task[Any]) -> None:
        loop = asyncio.get_running_loop()
        self._reading[task] = loop.time() + self._deadline_s
        if not self._watching:
            self._watch(loop, self._reading[task])

    def _watch(self, loop: asyncio.AbstractEventLoop, until: float) -> None:
        self._watching = True
        loop.call_at(until, self._end_late, loop)

    def _end_late(self, loop: asyncio.AbstractEventLoop) -> None:
        """End what took too long, and look again when the next could be late."""
        self._watching = False
        for task, until in self._reading.items():
            if until > loop.time():
                self._watch(loop, until)
                return
            if task not in self._late:
                self._late.add(task)
                task.cancel()


async def _gathered(piece: bytes, receive: Receive, room: Room) -> bytes | memoryview:
    """Return the body that begins with this piece."""
    pieces, size, more = [piece], len(piece), True
    while more and size < _LARGE_BYTES:
        piece, more = await _piece(receive)
        size += len(piece)
        room.hold(size)
        pieces.append(piece)
    body = b"".join(pieces)
    return await _mapped(body, receive, room) if more else body


async def _mapped(piece: bytes, receive: Receive, room: Room) -> memoryview:
    """Return a large body that begins with this piece.

    It lies in pages of its own, which are taken as pieces come and given back at once; many pieces together would leave
    the heap as large as its worst moment.
    """
    body = mmap.mmap(-1, max(1, room.most_bytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    size, more = 0, True
    while True:
        body[size : size + len(piece)] = piece
        size += len(piece)
        if not more:
            return memoryview(body)[:size]
        piece, more = await _piece(receive)
        room.hold(size + len(piece))


async def _piece(receive: Receive) -> tuple[bytes, bool]:
    """Return what comes next, and whether more comes after it."""
    message: Any = await receive()
    if message["type"] == _DISCONNECT:
        raise Refused(Reason.INTERRUPTED)
    return message.get("body", b""), message.get("more_body", False)
