"""How the Postgres that we talk to is set."""

from collections.abc import Mapping, Sequence
from typing import Final

from store.db import Connection
from store.tables import load

_SQL: Final = load("server_settings")


async def told(connection: Connection, names: Sequence[str]) -> Mapping[str, str]:
    """Return settings of the server by name, as they hold in this session; those that it does not have are left out."""
    return {row["name"]: row["setting"] for row in await connection.fetch(_SQL["told"], names)}
