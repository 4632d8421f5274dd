import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from store.db import Database
from store.errors import Unavailable
from store.keyring import Keyring
from store.queue import Queue
from store.services.buckets import ensure_buckets
from store.services.expiry import Expiry
from store.tables import buckets, spans
from tests.support.duties import (
    end_span,
    execute,
    leaves,
    new_parts,
    new_run,
    new_scope,
    scalar,
)
from tests.support.logs import heard

DAY = 86_400


@pytest.fixture
def expiry(database: Database, keyring: Keyring, queue: Queue) -> Expiry:
    return Expiry(database, keyring, queue, DAY)


async def _span(url: str, number: int = 1) -> datetime:
    start: datetime = await scalar(
        url, "SELECT DISTINCT span_start FROM buckets ORDER BY span_start OFFSET $1 LIMIT 1", number
    )
    return start


async def test_a_span_goes_as_one_act_over_all_scopes(
    expiry: Expiry, database: Database, keyring: Keyring, database_url: str
) -> None:
    scopes = [await new_scope(database_url) for _ in range(2)]
    await ensure_buckets(database, keyring, span_s=DAY)
    span = await _span(database_url)
    counts = {}
    for number, scope in enumerate(scopes, 1):
        run = await new_run(database_url, scope, retain_until=span + timedelta(hours=1))
        await new_parts(database_url, scope, run, number * 3)
        counts[scope] = number * 3
    before = await scalar(
        database_url, "SELECT xmin::text || ctid::text FROM parts ORDER BY evidence LIMIT 1"
    )
    await end_span(database_url, span)

    assert await expiry.due()
    assert await expiry.run() == {"expired": 2}

    assert not await expiry.due()
    async with database.connection() as connection:
        assert span not in {each.span_start for each in await spans.attached(connection)}
        assert await spans.stray(connection) == []
    assert await scalar(database_url, "SELECT count(*) FROM buckets WHERE state = 'destroyed'") == 2
    assert not {key for key in keyring.bucket_keys() if key[1] in await _destroyed(database_url)}
    rows = {leaf["b"]: leaf["n"] for leaf in await leaves(database_url) if leaf["k"] == "expire"}
    assert sorted(rows.values()) == sorted(counts.values())
    assert (
        await scalar(database_url, "SELECT xmin::text || ctid::text FROM parts ORDER BY evidence LIMIT 1")
        == before
    )


async def _destroyed(url: str) -> set[object]:
    return set(await scalar(url, "SELECT array_agg(bucket_id) FROM buckets WHERE state = 'destroyed'"))


async def test_the_leaf_counts_what_was_purged_before_too(
    expiry: Expiry, database: Database, keyring: Keyring, database_url: str
) -> None:
    scope = await new_scope(database_url)
    await ensure_buckets(database, keyring, span_s=DAY)
    span = await _span(database_url)
    run = await new_run(database_url, scope, retain_until=span + timedelta(hours=1))
    parts = await new_parts(database_url, scope, run, 5)
    purging = "UPDATE parts SET state = 'purging', purge_reason = 'erased' WHERE evidence = $1"
    await execute(database_url, purging, parts[0])
    await execute(database_url, purging, parts[1])
    await execute(database_url, "DELETE FROM bodies WHERE evidence = $1", parts[1])
    await end_span(database_url, span)

    await expiry.run()

    assert [leaf["n"] for leaf in await leaves(database_url)] == [5]


async def test_nothing_goes_before_its_time(
    expiry: Expiry, database: Database, keyring: Keyring, database_url: str
) -> None:
    await new_scope(database_url)
    await ensure_buckets(database, keyring, span_s=DAY)

    assert not await expiry.due()
    assert await expiry.run() == {"expired": 0, "leftovers": 0}
    assert await scalar(database_url, "SELECT count(*) FROM buckets WHERE state <> 'live'") == 0


async def test_a_clock_that_went_back_destroys_nothing(
    expiry: Expiry,
    database: Database,
    keyring: Keyring,
    database_url: str,
) -> None:
    await new_scope(database_url)
    await ensure_buckets(database, keyring, span_s=DAY)
    await end_span(database_url, await _span(database_url))
    await execute(
        database_url, "INSERT INTO leases (duty, seen_at) VALUES ('expiry', now() + interval '1 hour')"
    )

    with heard() as log:
        assert await expiry.run() == {"clock_back": 1}

    assert await scalar(database_url, "SELECT count(*) FROM buckets WHERE state <> 'live'") == 0
    assert "clock_went_back" in log.getvalue()


async def test_a_clock_that_jumped_ahead_lets_one_span_a_minute_go_with_an_alarm(
    expiry: Expiry,
    database: Database,
    keyring: Keyring,
    database_url: str,
) -> None:
    await new_scope(database_url)
    await ensure_buckets(database, keyring, span_s=DAY)
    for number in range(3):
        await end_span(database_url, await _span(database_url, number))

    assert await expiry.run() == {"expired": 1}
    with heard() as log:
        assert await expiry.run() == {"waiting": 1}
    assert "expiry_behind" in log.getvalue()
    await execute(database_url, "UPDATE leases SET paced_at = now() - interval '61 seconds'")
    assert await expiry.run() == {"expired": 1}


async def test_spans_of_seconds_are_let_go_as_fast_as_they_end(
    database: Database, keyring: Keyring, queue: Queue, database_url: str
) -> None:
    scope = await new_scope(database_url, longest=timedelta(seconds=4))
    expiry = Expiry(database, keyring, queue, 1)
    await ensure_buckets(database, keyring, span_s=1)
    now = datetime.now(UTC)
    run = await new_run(database_url, scope, retain_until=now + timedelta(seconds=1))
    await new_parts(database_url, scope, run, 2)

    async with asyncio.timeout(10):
        while await scalar(database_url, "SELECT count(*) FROM bodies"):
            await expiry.run()
            await asyncio.sleep(0.1)

    assert await scalar(
        database_url,
        "SELECT bool_and(state = 'destroyed') FROM buckets WHERE bucket_id IN (SELECT bucket_id FROM parts)",
    )
    assert sum(leaf["n"] for leaf in await leaves(database_url)) == 2


STEPS = ["_expire", "_detach", "_drop_table", "_destroy_key", "_rewrite", "_mark"]


@pytest.mark.parametrize("step", STEPS)
async def test_a_crash_at_any_step_is_continued(
    step: str,
    expiry: Expiry,
    database: Database,
    keyring: Keyring,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for _ in range(2):
        scope = await new_scope(database_url)
    await ensure_buckets(database, keyring, span_s=DAY)
    span = await _span(database_url)
    run = await new_run(database_url, scope, retain_until=span + timedelta(hours=1))
    await new_parts(database_url, scope, run, 3)
    await end_span(database_url, span)

    with monkeypatch.context() as patch:
        _crash_at(step, patch)
        with pytest.raises(ZeroDivisionError):
            await expiry.run()
    assert await scalar(database_url, "SELECT count(*) FROM buckets WHERE state = 'destroyed'") == 0

    # A crash before the first bucket was marked costs the pace of one minute.
    await execute(database_url, "UPDATE leases SET paced_at = paced_at - interval '1 minute'")
    await expiry.run()
    assert await scalar(database_url, "SELECT count(*) FROM buckets WHERE state = 'destroyed'") == 2
    assert await scalar(database_url, "SELECT count(*) FROM bodies") == 0
    assert sorted(leaf["n"] for leaf in await leaves(database_url) if leaf["k"] == "expire") == [0, 3]
    async with database.connection() as connection:
        assert await spans.stray(connection) == []


def _crash_at(step: str, patch: pytest.MonkeyPatch) -> None:
    async def crash(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    if step == "_expire":
        patch.setattr(buckets, "mark_expired", crash)
    elif step == "_detach":
        patch.setattr(spans, "detach", crash)
    elif step == "_drop_table":
        patch.setattr(spans, "drop", crash)
    elif step == "_destroy_key":
        patch.setattr(Keyring, "destroy_bucket_keys", lambda *_: 1 // 0)
    elif step == "_rewrite":
        patch.setattr(Queue, "rewrite_file", crash)
    else:
        patch.setattr(buckets, "mark_destroyed", crash)


async def test_detaching_that_a_reader_holds_up_is_finished_later(
    expiry: Expiry, database: Database, keyring: Keyring, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = await new_scope(database_url)
    await ensure_buckets(database, keyring, span_s=DAY)
    span = await _span(database_url)
    run = await new_run(database_url, scope, retain_until=span + timedelta(hours=1))
    await new_parts(database_url, scope, run, 3)
    await end_span(database_url, span)
    monkeypatch.setattr("store.services.buckets._LOCK_TRIES", 2)
    reader = await asyncpg.connect(database_url)
    try:
        async with reader.transaction():
            await reader.fetch("SELECT count(*) FROM bodies")
            with pytest.raises(Unavailable):
                await expiry.run()
            # Others read on meanwhile: nobody waits behind the detaching.
            assert await scalar(database_url, "SELECT count(*) FROM bodies") in (0, 3)
    finally:
        await reader.close()

    assert await expiry.run() == {"expired": 1}
    assert await scalar(database_url, "SELECT count(*) FROM bodies") == 0


async def test_partitions_of_a_time_without_scopes_are_dropped(
    expiry: Expiry, database: Database, database_url: str
) -> None:
    past = datetime(2020, 1, 1, tzinfo=UTC)
    async with database.transaction() as connection:
        await spans.create(connection, spans.Span(past, past + timedelta(days=1)))

    assert await expiry.run() == {"expired": 0, "leftovers": 1}
    async with database.connection() as connection:
        assert await spans.attached(connection) == []
