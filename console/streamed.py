"""Answers that are sent while they are made: bundles, and lists as files."""

from collections.abc import AsyncGenerator
from typing import Any, Final
from urllib.parse import quote

from litestar import Response
from litestar.connection import ASGIConnection
from litestar.types import Receive, Scope, Send

from console.guards import still_good
from store.services.export.sending import send_while_taken

# Of a list as a file; one that is longer says in itself that it was cut.
MOST_ROWS: Final = 10_000


class Streamed(Response[bytes]):
    """A file of ours, for as long as somebody takes it whose session lives, and whose key is good.

    It ends as a whole, or the connection closes before its end.
    """

    def __init__(self, first: bytes, rest: AsyncGenerator[bytes, None], name: str, media_type: str) -> None:
        """Prepare: `first` is there already, so that what stands against all of it was an answer of its own."""
        super().__init__(b"")
        self._first = first
        self._rest = rest
        self._said = [
            (b"content-type", media_type.encode("ascii")),
            (b"content-disposition", f"attachment; filename*=UTF-8''{quote(name, safe='')}".encode("ascii")),
        ]

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """Return what the framework sends: this very answer."""
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        still = still_good(ASGIConnection(scope))
        broken_off = await send_while_taken(self._said, self._first, self._rest, still, receive, send)
        if broken_off is not None:
            scope["state"]["reason"] = broken_off.value
