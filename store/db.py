"""The boundary to Postgres: pools, transactions, and the translation of its failures into ours.

Nothing above this floor sees an asyncpg exception. What is the server's fault becomes `Unavailable` (try again);
what is the fault of the rows themselves becomes `RowRefused` (that row will never be taken).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from policies.reasons import Reason
from store.errors import RowRefused, Unavailable

SERVICE_ROLE: Final = "custody_service"
DUTIES_ROLE: Final = "custody_duties"

Record = asyncpg.Record
Connection = PoolConnectionProxy
Before: TypeAlias = Callable[[], Awaitable[None]]

# A statement that waits longer than this helps nobody: the caller gets `store_unavailable`, the writer tries again.
_STATEMENT_TIMEOUT: Final = "30s"
_LOCK_TIMEOUT: Final = "5s"
# And a session whose process is gone without a word keeps its locks no longer than this.
_IDLE_TIMEOUT: Final = "60s"
# Longer than any statement may take: a server that has not answered by then is gone, whatever its socket says.
_SILENCE_S: Final = 35.0

_ROW_FAULTS: Final = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
)


@contextmanager
def translated() -> Iterator[None]:
    """Turn what asyncpg and the socket raise into our errors; the server's messages never pass: they quote rows."""
    try:
        yield
    except _ROW_FAULTS as fault:
        raise RowRefused(getattr(fault, "constraint_name", None) or type(fault).__name__) from None
    except (
        OSError,
        TimeoutError,
        asyncpg.exceptions.PostgresError,
        asyncpg.exceptions.InterfaceError,
        # A server that ends a session while it is idle can leave asyncpg in a state that it calls a fault of its own.
        asyncpg.exceptions.InternalClientError,
    ) as fault:
        raise Unavailable(Reason.STORE_UNAVAILABLE, cause=type(fault).__name__) from None


async def _nothing_to_reset(_: Connection) -> None:
    """Leave a session as it is: the service changes nothing of it, and asyncpg itself ends an open transaction.

    The usual reset is a round trip more for every statement.
    """


class Database:
    """A pool of connections that all act in one role. The pool connects when first used, so a start needs no server."""

    def __init__(self, pool: asyncpg.Pool, before: Before | None = None) -> None:
        self._pool = pool
        self._before = before

    @classmethod
    async def open(cls, url: str, *, role: str | None, size: int) -> "Database":
        """Make a pool of at most `size` connections to `url`, acting as `role` whatever the login may do."""
        settings = {
            "application_name": f"custody {role or 'owner'}",
            "statement_timeout": _STATEMENT_TIMEOUT,
            "lock_timeout": _LOCK_TIMEOUT,
            "idle_in_transaction_session_timeout": _IDLE_TIMEOUT,
            "timezone": "UTC",
            "jit": "off",
        }
        if role is not None:
            settings["role"] = role
        if role == SERVICE_ROLE:
            # Every statement of the service is a look-up by key. Planning the larger ones takes longer than they run,
            # the more so the more partitions there are: each is planned once a session, never once a call.
            settings["plan_cache_mode"] = "force_generic_plan"
        pool = asyncpg.create_pool(
            url,
            min_size=0,
            max_size=size,
            server_settings=settings,
            statement_cache_size=512,
            max_inactive_connection_lifetime=300.0,
            timeout=5.0,
            command_timeout=_SILENCE_S,
            reset=_nothing_to_reset if role == SERVICE_ROLE else None,
        )
        with translated():
            await pool
        return cls(pool)

    def after(self, before: Before) -> "Database":
        """Return the same pool for those of whom something is asked before they get a connection; it raises if not."""
        return Database(self._pool, before)

    async def close(self) -> None:
        """Close every connection; those in use are waited for, at most five seconds."""
        try:
            async with asyncio.timeout(5):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection outside a transaction."""
        if self._before is not None:
            await self._before()
        with translated():
            async with self._pool.acquire(timeout=5.0) as connection:
                yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Lend a connection inside one transaction (read committed); it commits when the block ends well.

        An outage while it commits is `unclear`: the server may have committed, and only its answer is lost.
        """
        if self._before is not None:
            await self._before()
        committing = False
        try:
            with translated():
                async with self._pool.acquire(timeout=5.0) as connection, connection.transaction():
                    yield connection
                    committing = True
        except Unavailable as outage:
            outage.unclear |= committing
            raise
