"""One PostgreSQL and one Valkey for a whole test session: embedded ones, or those that the environment names.

CUSTODY_TEST_DATABASE_URL must be a superuser's; CUSTODY_TEST_REDIS_URL must name an empty database, which is flushed.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import redis

from store.embedded import start_postgres, start_valkey

# A test has a database of its own, some hundred files: made in memory, where there is room, four times as fast.
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a directory of our own is made in it
_ROOM_BYTES: Final = 4 << 30


@contextmanager
def short_directory() -> Iterator[Path]:
    """Give a directory whose sockets have short paths, and through which the server's user may pass."""
    directory = Path(tempfile.mkdtemp(prefix="cu-", dir=_place()))
    directory.chmod(0o711)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


def _place() -> Path:
    if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM_BYTES:
        return _MEMORY
    return Path("/tmp")  # noqa: S108 - as above


@contextmanager
def postgres() -> Iterator[str]:
    """Address of the session's PostgreSQL, as a superuser."""
    if named := os.environ.get("CUSTODY_TEST_DATABASE_URL"):
        yield named
        return
    with short_directory() as directory:
        server = start_postgres(directory / "p", durable=False)
        try:
            yield server.url
        finally:
            server.stop()


@contextmanager
def valkey() -> Iterator[str]:
    """Address of the session's Valkey."""
    if named := os.environ.get("CUSTODY_TEST_REDIS_URL"):
        _refuse_one_in_use(named)
        yield named
        return
    with short_directory() as directory:
        server = start_valkey(directory / "v", durable=False)
        try:
            yield server.url
        finally:
            server.stop()


def flush(redis_url: str) -> None:
    """Empty the database that the address names, and no other."""
    with redis.Redis.from_url(redis_url) as client:
        client.flushdb()


def _refuse_one_in_use(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        if client.dbsize():
            message = "CUSTODY_TEST_REDIS_URL names a database that holds keys, and the tests flush it"
            raise RuntimeError(message)
