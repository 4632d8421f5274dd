"""Taking Postgres away from everybody who uses one database, and giving it back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg

NOWHERE = "redis://127.0.0.1:1"
"""An address at which nobody answers."""

NO_POSTGRES = "postgresql://nobody@127.0.0.1:1/nowhere"


@asynccontextmanager
async def postgres_away(postgres_url: str, database_url: str) -> AsyncIterator[None]:
    """Refuse every connection to a database, and cut those there are, until the block ends."""
    name = urlsplit(database_url).path.removeprefix("/")
    admin = await asyncpg.connect(postgres_url)
    try:
        await admin.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS false')
        await admin.fetch("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
        yield
    finally:
        await admin.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS true')
        await admin.close()
