"""`purge_flat`: scheduled expiry of a bucket of 200,000 parts of 4 KiB, against `DELETE` of the same rows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

import asyncpg

from bench.figures import Figure, alternate
from bench.seeds import seed_expiring
from bench.setting import Setting
from bench.stack import Store
from store import clock
from store.ids import new_bucket_id
from store.services.expiry import Expiry
from store.tables import spans
from store.tables.spans import Span

PARTS: Final = 200_000
ROUNDS: Final = 2

_DAY: Final = timedelta(days=1)


async def measure(setting: Setting) -> list[Figure]:
    """Return the ratio of the times."""
    async with setting.stack.store() as store:
        connection = await asyncpg.connect(store.owner_url)

        async def ours(at: int) -> float:
            async with _filled(store, connection, days_ago=3 + 2 * at):
                return await _expired_ms(store)

        async def rival(at: int) -> float:
            async with _filled(store, connection, days_ago=4 + 2 * at) as span:
                began = clock.monotonic()
                await connection.execute("DELETE FROM bodies WHERE span_start = $1", span.span_start)
                return (clock.monotonic() - began) * 1000

        found = await alternate(setting.rounds(ROUNDS), ours, rival)
        await connection.close()
    return [Figure("purge_flat", found.ratio, found.told(f"ms for {PARTS} parts", "DELETE"))]


async def _expired_ms(store: Store) -> float:
    """Run the duty until the one bucket that is due is gone."""
    services = store.services
    assert services.duties_database is not None
    span_s = int(services.settings.bucket_span.total_seconds())
    duty = Expiry(services.duties_database, services.keyring, services.queue, span_s)
    began = clock.monotonic()
    counts = await duty.run()
    elapsed_s = clock.monotonic() - began
    if counts != {"expired": 1}:
        raise RuntimeError(f"the duty did something else: {dict(counts)}")
    return elapsed_s * 1000


@asynccontextmanager
async def _filled(store: Store, connection: asyncpg.Connection, days_ago: int) -> AsyncIterator[Span]:
    """Make a span that is over, with one full bucket; leave nothing of it behind."""
    duties, scope, bucket = store.services.duties_database, store.scopes[0].scope_id, new_bucket_id()
    assert duties is not None
    today = datetime.combine(clock.utc_now().date(), datetime.min.time(), UTC)
    span = Span(today - days_ago * _DAY, today - (days_ago - 1) * _DAY)
    store.services.keyring.create_bucket_key(scope, bucket)
    async with duties.transaction() as making:
        await spans.create(making, span)
    await seed_expiring(connection, scope, bucket, span.span_start, PARTS)
    yield span
    async with duties.connection() as dropping:
        if span in await spans.attached(dropping):
            await spans.detach(dropping, span)
            await spans.drop(dropping, span.span_start)
    await connection.execute("DELETE FROM buckets WHERE bucket_id = $1", bucket)
    await connection.execute("TRUNCATE parts")
    # At most one span a minute is let go; the rounds are not minutes apart.
    await connection.execute("UPDATE leases SET paced_at = NULL")
