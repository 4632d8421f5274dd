"""The scripts: what must happen at once happens inside Redis. Each is a file of lua/ and is called by its digest."""

from collections.abc import Sequence
from hashlib import sha1
from pathlib import Path
from typing import Any, Final

from redis.exceptions import NoScriptError, ReadOnlyError

from store.queue.connection import Link

_FILES: Final = Path(__file__).parent / "lua"
_SHARED: Final = (_FILES / "shared.lua").read_text("utf-8")


class Script:
    """One script. A server that was restarted or flushed has forgotten it and is told again.

    One that runs `when_full` is not refused for want of memory, so that it may take no more of it than a few fields.
    """

    def __init__(self, name: str, *, when_full: bool = False) -> None:
        text = _SHARED + (_FILES / f"{name}.lua").read_text("utf-8")
        self.text = f"#!lua flags=allow-oom\n{text}" if when_full else text
        self.digest = sha1(self.text.encode()).hexdigest()  # noqa: S324 - Redis names scripts so

    async def run(self, client: Link, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Call the script; it has either run once or not at all."""
        command = packed(["EVALSHA", self.digest, len(keys), *keys, *arguments])
        try:
            return await answer_to(client, command)
        except NoScriptError:
            await client.script_load(self.text)
            return await answer_to(client, command)


def packed(command: Sequence[bytes | str | int]) -> bytes:
    """Write a command as Redis reads it: with hundreds of arguments several times faster than redis-py does."""
    pieces = [b"*%d\r\n" % len(command)]
    for argument in command:
        raw = argument if isinstance(argument, bytes) else str(argument).encode()
        pieces += (b"$%d\r\n" % len(raw), raw, b"\r\n")
    return b"".join(pieces)


async def answer_to(client: Link, command: bytes) -> Any:
    """Send a packed command and return its answer as it came.

    A connection that was left in the middle closes itself and is not used again.
    """
    try:
        return await _sent(client, command)
    except ReadOnlyError:
        await client.demoted()
        raise


async def _sent(client: Link, command: bytes) -> Any:
    pool = client.connection_pool
    connection = await pool.get_connection()
    try:
        await connection.send_packed_command(command, check_health=False)
        return await connection.read_response()
    finally:
        await pool.release(connection)


APPEND: Final = Script("append")
SETTLE: Final = Script("settle")
RECLAIM: Final = Script("reclaim")
LEAVE: Final = Script("leave")
ALONE: Final = Script("alone")
OPEN: Final = Script("open")
VIEW: Final = Script("view")
# No run must go on taking content because the server has no room for the word that ends it.
NARROW: Final = Script("narrow", when_full=True)
CLOSE: Final = Script("close")
FORGET: Final = Script("forget")
RECOUNT: Final = Script("recount")
ANEW: Final = Script("anew")
DEPTH: Final = Script("depth")
WAITS: Final = Script("waits")
SEALED: Final = Script("sealed")
IDLE: Final = Script("idle")
