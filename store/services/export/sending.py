"""An answer that is sent while it is made, for as long as somebody takes it who still may have it, and for some hours.

It ends as a whole, or without its end.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

from policies.reasons import Reason
from store.errors import CustodyError

# A piece goes out in such slices; whoever takes none for so long gets no more.
_SLICE: Final = 256 << 10
_TAKEN_WITHIN_S: Final = 60.0
# The whole of it: the greatest bundle at three megabits a second, and no place held for days.
_WHOLE_WITHIN_S: Final = 2 * 3600.0

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]
# Raises CustodyError once whoever asked may have no more.
Still = Callable[[], Awaitable[object]]


async def send_while_taken(
    headers: Headers,
    first: bytes,
    rest: AsyncGenerator[bytes, None],
    still: Still,
    receive: Receive,
    send: Send,
) -> Reason | None:
    """Send an answer of ASGI whose first piece is there already, until it is over or nobody is there any more.

    `still` is asked before more of it is made. Return why it has no end; None where it has one, and where nobody waits.
    """
    sending = asyncio.create_task(_send_all(headers, first, rest, still, send))
    gone = asyncio.create_task(_gone(receive))
    try:
        over, _ = await asyncio.wait(
            {sending, gone}, timeout=_WHOLE_WITHIN_S, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        gone.cancel()
        if not sending.done():
            sending.cancel()
    await asyncio.wait({sending})
    fault = None if sending.cancelled() else sending.exception()
    # The answer has begun: the server closes the connection before its end.
    if isinstance(fault, CustodyError):
        return fault.reason
    if fault is not None and not isinstance(fault, TimeoutError):
        raise fault
    return Reason.INTERRUPTED if fault is not None or not over else None


async def _send_all(
    headers: Headers, first: bytes, rest: AsyncGenerator[bytes, None], still: Still, send: Send
) -> None:
    async with aclosing(rest) as pieces:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        piece: bytes | None = first
        while piece is not None:
            await _sliced(send, piece)
            # To have been allowed to begin is no reason to be allowed now.
            await still()
            piece = await anext(pieces, None)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _sliced(send: Send, piece: bytes) -> None:
    for at in range(0, len(piece), _SLICE):
        async with asyncio.timeout(_TAKEN_WITHIN_S):
            await send({"type": "http.response.body", "body": piece[at : at + _SLICE], "more_body": True})


async def _gone(receive: Receive) -> None:
    """Return once nobody is there any more."""
    while (await receive())["type"] != "http.disconnect":
        pass
