"""Senders that break off, dawdle or never begin: plain sockets, byte by byte."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass
class Line:
    """One connection to an api."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def begin(self, method: str, path: str, headers: Mapping[str, str], declared: int) -> None:
        """Send the head of a request whose body is asked for first, and wait until it is."""
        asked = {"Expect": "100-continue", "Content-Length": str(declared), **headers}
        await self.send(head(method, path, asked))
        assert await asyncio.wait_for(self.reader.readexactly(len(CONTINUE)), 10) == CONTINUE

    async def answer(self, within_s: float = 10.0) -> bytes:
        """Everything that still comes, until the other side closes."""
        return await asyncio.wait_for(self.reader.read(), within_s)

    def cut(self) -> None:
        """Go away without a word."""
        self.writer.transport.abort()


def head(method: str, path: str, headers: Mapping[str, str]) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: custody",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@asynccontextmanager
async def line_to(url: str) -> AsyncIterator[Line]:
    """A connection that is closed with the block, however far it came."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    line = Line(reader, writer)
    try:
        yield line
    finally:
        line.cut()
