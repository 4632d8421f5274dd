"""A way to Postgres on which something happens to what is said."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

_SOCKET: Final = ".s.PGSQL.5432"


class Wire:
    """What becomes of what goes forth to the server and comes back; None breaks the way, empty is silence."""

    url = ""

    def forth(self, data: bytes) -> bytes | None:
        """Return what of it reaches the server."""
        return data

    def back(self, data: bytes) -> bytes | None:
        """Return what of it reaches the client."""
        return data


Own = TypeVar("Own", bound=Wire)


@asynccontextmanager
async def wire_to(url: str, directory: Path, wire: Own) -> AsyncIterator[Own]:
    """Listen beside the server's own socket, at the wire's `url`, and hand on what comes as the wire says."""
    there = Path(parse_qs(urlsplit(url).query)["host"][0]) / _SOCKET
    wire.url = urlsplit(url)._replace(query=f"host={quote(str(directory))}").geturl()
    ways: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_unix_connection(there)
        ways.add(asyncio.create_task(_handed_on(reader, forth, wire.forth)))
        ways.add(asyncio.create_task(_handed_on(back, writer, wire.back)))

    server = await asyncio.start_unix_server(connected, directory / _SOCKET)
    try:
        yield wire
    finally:
        server.close()
        async with asyncio.timeout(5):
            await asyncio.gather(*ways)


async def _handed_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: Callable[[bytes], bytes | None]
) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            said = heard(data)
            if said is None:
                break
            writer.write(said)
            await writer.drain()
    writer.close()
