"""Asking before sending: `Expect: 100-continue`, which the usual clients do not speak.

A server that refuses a large body unread closes the connection, and what was still being sent then can cost the sender
the answer. Whoever asks first sends nothing in vain and always hears why.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import h11

_CHUNK = 65536


@dataclass(frozen=True)
class Answer:
    """What came back, and whether the body was asked for."""

    status: int
    content: bytes
    asked: bool


async def put(url: str, path: str, headers: Mapping[str, str], content: bytes) -> Answer:
    """Send the head, wait to be asked, and only then send the body."""
    host = urlsplit(url)
    reader, writer = await asyncio.open_connection(host.hostname, host.port)
    connection = h11.Connection(h11.CLIENT)
    try:
        sent = [
            ("Host", host.netloc),
            ("Content-Length", str(len(content))),
            ("Expect", "100-continue"),
            *headers.items(),
        ]
        writer.write(connection.send(h11.Request(method="PUT", target=path, headers=sent)) or b"")
        return await _hear(connection, reader, writer, content)
    finally:
        writer.close()


async def _hear(
    connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, content: bytes
) -> Answer:
    status, body, asked = 0, b"", False
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_CHUNK))
        elif isinstance(event, h11.InformationalResponse):
            asked = True
            writer.write(connection.send(h11.Data(data=content)) or b"")
            writer.write(connection.send(h11.EndOfMessage()) or b"")
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
        else:
            return Answer(status, body, asked)
