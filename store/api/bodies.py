"""Reading bodies: within a budget of the whole process, a cap, and a deadline; never before the guard has decided."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from litestar.types import Receive

from policies.reasons import Reason
from store.errors import Refused

_DISCONNECT: Final = "http.disconnect"


class BodyBudget:
    """How many bytes of bodies this process may hold at once. Reserved before reading, given back when answered."""

    def __init__(self, total_bytes: int) -> None:
        self._free = total_bytes

    @property
    def free_bytes(self) -> int:
        """What may still be reserved."""
        return self._free

    @contextmanager
    def reserved(self, size: int) -> Iterator[None]:
        """Hold `size` bytes for the block, or raise Refused (capacity_exceeded) at once: nobody waits for room."""
        if size > self._free:
            raise Refused(Reason.CAPACITY_EXCEEDED)
        self._free -= size
        try:
            yield
        finally:
            self._free += size


async def read_body(receive: Receive, most_bytes: int, deadline_s: float) -> bytes:
    """Return the whole body; Refused (part_too_large) as soon as it is over, (interrupted) if it is cut off or slow."""
    try:
        async with asyncio.timeout(deadline_s):
            return await _read(receive, most_bytes)
    except TimeoutError:
        raise Refused(Reason.INTERRUPTED) from None


async def _read(receive: Receive, most_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message: Any = await receive()
        if message["type"] == _DISCONNECT:
            raise Refused(Reason.INTERRUPTED)
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > most_bytes:
            raise Refused(Reason.PART_TOO_LARGE)
        chunks.append(chunk)
        if not message.get("more_body", False):
            # Most bodies come in one piece: no copy then.
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
