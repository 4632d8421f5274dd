"""Reading a body: under a cap and a deadline, and never before the guard has decided."""

import asyncio
from typing import Any, Final

from litestar.types import Receive

from policies.reasons import Reason
from store.errors import Refused

_DISCONNECT: Final = "http.disconnect"


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
