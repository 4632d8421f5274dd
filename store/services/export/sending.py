"""An answer that is sent while it is made, for as long as somebody takes it. It ends as a whole, or without its end."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

from store.errors import CustodyError

# A piece goes out in such slices; whoever takes none for so long gets no more.
_SLICE: Final = 256 << 10
_TAKEN_WITHIN_S: Final = 60.0

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]


async def send_while_taken(
    headers: Headers, first: bytes, rest: AsyncGenerator[bytes, None], receive: Receive, send: Send
) -> None:
    """Send an answer of ASGI whose first piece is there already, until it is over or nobody is there any more."""
    sending = asyncio.create_task(_send_all(headers, first, rest, send))
    gone = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        if not sending.done():
            sending.cancel()
    await asyncio.wait({sending})
    fault = None if sending.cancelled() else sending.exception()
    # An outage is in the log already. The answer has begun: the server closes the connection before its end.
    if fault is not None and not isinstance(fault, CustodyError | TimeoutError):
        raise fault


async def _send_all(headers: Headers, first: bytes, rest: AsyncGenerator[bytes, None], send: Send) -> None:
    async with aclosing(rest) as pieces:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await _sliced(send, first)
        async for piece in pieces:
            await _sliced(send, piece)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _sliced(send: Send, piece: bytes) -> None:
    for at in range(0, len(piece), _SLICE):
        async with asyncio.timeout(_TAKEN_WITHIN_S):
            await send({"type": "http.response.body", "body": piece[at : at + _SLICE], "more_body": True})


async def _gone(receive: Receive) -> None:
    """Return once nobody is there any more."""
    while (await receive())["type"] != "http.disconnect":
        pass
