"""Migrated databases for tests: one template a session, one clone of it a test."""

import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg


def at(server_url: str, database: str) -> str:
    """Address of another database on the same server."""
    return urlsplit(server_url)._replace(path=f"/{database}").geturl()


def new_name() -> str:
    """Name a database that nobody else uses, also on a server that several sessions share."""
    return f"custody_test_{os.getpid()}_{secrets.token_hex(4)}"


async def make_template(server_url: str) -> str:
    """Create a database and bring it to this version; return its name."""
    from store.migrate import migrate  # noqa: PLC0415 - tests of lower floors need no migrator

    name = new_name()
    await _execute(server_url, f'CREATE DATABASE "{name}"')
    await migrate(at(server_url, name))
    return name


@asynccontextmanager
async def clone_of(server_url: str, template: str) -> AsyncIterator[str]:
    """Address of a fresh copy of the template, dropped afterwards with whoever is still connected to it."""
    name = new_name()
    await _execute(server_url, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    try:
        yield at(server_url, name)
    finally:
        await drop(server_url, name)


async def drop(server_url: str, name: str) -> None:
    """Drop a database of ours."""
    await _execute(server_url, f'DROP DATABASE "{name}" WITH (FORCE)')


async def _execute(server_url: str, statement: str) -> None:
    connection = await asyncpg.connect(server_url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
