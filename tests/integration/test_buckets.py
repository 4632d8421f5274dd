from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.db import Database
from store.errors import ConfigFaults
from store.key_directory import FileKeyDirectory
from store.keyring import Keyring
from store.services import buckets as service
from store.services.buckets import Made, buckets_due, ensure_buckets, planned_spans
from store.tables import batch, bucket_keys, buckets, spans
from store.tables.spans import Span
from tests.support.duties import execute, keyring_of, new_scope, scalar

DAY = 86_400
NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)


# --- which spans there should be


def test_days_from_today_to_the_longest_retention_plus_seven() -> None:
    planned = planned_spans(NOON, 2 * DAY, DAY, [])

    assert planned[0].span_start == datetime(2025, 6, 1, tzinfo=UTC)
    assert planned[-1].span_start == datetime(2025, 6, 10, tzinfo=UTC)
    assert all(one.span_end == next_.span_start for one, next_ in pairwise(planned))


def test_more_spans_than_are_sensible_are_a_clear_fault() -> None:
    with pytest.raises(ConfigFaults, match="more than 2000 spans"):
        planned_spans(NOON, 3 * DAY, 60, [])


@given(
    span_s=st.sampled_from([1, 60, 3600, DAY]),
    longest=st.integers(1, 100),
    cuts=st.lists(st.integers(-50_000, 400_000), max_size=8, unique=True).map(sorted),
)
def test_spans_tile_the_time_and_never_overlap_those_that_exist(
    span_s: int, longest: int, cuts: list[int]
) -> None:
    existing = [
        Span(NOON + timedelta(seconds=one), NOON + timedelta(seconds=other))
        for one, other in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    planned = planned_spans(NOON, longest * span_s, span_s, existing)

    assert planned[0].span_start <= NOON < planned[0].span_end
    assert planned[-1].span_end > NOON + timedelta(seconds=(longest + service.SPARE_SPANS) * span_s)
    for one, other in pairwise(planned):
        assert one.span_end == other.span_start
    for old in existing:
        assert all(
            new == old or new.span_end <= old.span_start or new.span_start >= old.span_end for new in planned
        )


# --- making them


async def test_every_scope_gets_every_span_with_its_key_and_its_partition(
    database: Database, keyring: Keyring, database_url: str
) -> None:
    scopes = {await new_scope(database_url, longest=timedelta(days=3)) for _ in range(2)}

    made = await ensure_buckets(database, keyring, span_s=DAY)

    async with database.connection() as connection:
        live = [key[:2] for key in await bucket_keys.needed(connection)]
        partitions = await spans.attached(connection)
        rows = [row for span in partitions for row in await buckets.of_span(connection, span.span_start)]
    assert made == Made(partitions=len(partitions), buckets=len(rows))
    assert {(row.scope_id, row.span_start) for row in rows} == {
        (scope, span.span_start) for scope in scopes for span in partitions
    }
    # Each scope has one more, for what is held beyond its span.
    assert keyring.bucket_keys() == set(live)
    assert sorted(
        scope for scope, bucket in set(live) - {(row.scope_id, row.bucket_id) for row in rows}
    ) == sorted(scopes)
    assert not await buckets_due(database, span_s=DAY)


async def test_a_second_run_makes_nothing(database: Database, keyring: Keyring, database_url: str) -> None:
    await new_scope(database_url)
    await ensure_buckets(database, keyring, span_s=DAY)

    assert await ensure_buckets(database, keyring, span_s=DAY) == Made(0, 0)


async def test_without_a_scope_there_is_nothing_to_make(database: Database, keyring: Keyring) -> None:
    assert not await buckets_due(database, span_s=DAY)
    assert await ensure_buckets(database, keyring, span_s=DAY) == Made(0, 0)


async def test_a_new_scope_and_a_longer_retention_are_noticed(
    database: Database, keyring: Keyring, database_url: str
) -> None:
    first = await new_scope(database_url)
    assert await buckets_due(database, span_s=DAY)
    await ensure_buckets(database, keyring, span_s=DAY)

    await new_scope(database_url)
    assert await buckets_due(database, span_s=DAY)
    await ensure_buckets(database, keyring, span_s=DAY)
    assert not await buckets_due(database, span_s=DAY)

    await execute(database_url, "UPDATE scopes SET retention_max_s = $2 WHERE scope_id = $1", first, 40 * DAY)
    assert await buckets_due(database, span_s=DAY)


async def test_another_span_length_keeps_the_spans_that_exist(
    database: Database, keyring: Keyring, database_url: str
) -> None:
    scope = await new_scope(database_url, longest=timedelta(days=1))
    await ensure_buckets(database, keyring, span_s=DAY)
    before = await _starts(database_url, scope)

    await execute(database_url, "UPDATE scopes SET retention_max_s = $1", 10 * DAY)
    await ensure_buckets(database, keyring, span_s=DAY // 4)

    after = await _starts(database_url, scope)
    assert before == after[: len(before)]
    assert await scalar(database_url, "SELECT max(span_end) > now() + interval '10 days' FROM buckets")
    assert (
        await scalar(
            database_url,
            "SELECT count(*) FROM buckets a JOIN buckets b ON a.scope_id = b.scope_id AND a.bucket_id <> b.bucket_id"
            " AND a.span_start < b.span_end AND b.span_start < a.span_end",
        )
        == 0
    )


async def test_the_bucket_of_an_instant_is_the_one_whose_span_contains_it(
    database: Database, keyring: Keyring, database_url: str
) -> None:
    scope, other = await new_scope(database_url), await new_scope(database_url)
    await ensure_buckets(database, keyring, span_s=DAY)
    start = (await _starts(database_url, scope))[1]

    asked = {
        "start": (scope, start),
        "before end": (scope, start + timedelta(seconds=DAY, microseconds=-1)),
        "end": (scope, start + timedelta(seconds=DAY)),
        "elsewhere": (other, start),
        "beyond": (scope, start + timedelta(days=400)),
    }
    async with database.connection() as connection:
        rows = await batch.buckets_at(connection, list(asked.values()))
    found = {name: rows.get(wanted) for name, wanted in asked.items()}
    assert found["start"] is not None
    assert found["start"] == found["before end"]
    assert found["end"] is not None
    assert found["end"].span_start == start + timedelta(days=1)
    assert found["elsewhere"] is not None
    assert found["elsewhere"].bucket_id != found["start"].bucket_id
    assert found["beyond"] is None


async def test_a_row_that_somebody_else_made_keeps_its_key_and_ours_goes(
    database: Database, keyring: Keyring, database_url: str
) -> None:
    scope = await new_scope(database_url)
    await ensure_buckets(database, keyring, span_s=DAY)
    async with database.connection() as connection:
        (span, *_) = await spans.attached(connection)
        (row,) = await buckets.of_span(connection, span.span_start)
    late = buckets.Bucket(scope, UUID(int=7), row.span_start, row.span_end, "live")
    keyring.create_bucket_key(scope, late.bucket_id)

    assert await service._insert(database, keyring, [late]) == 0

    assert keyring.has_bucket_key(scope, row.bucket_id)
    assert not keyring.has_bucket_key(scope, late.bucket_id)


class _FullDisk(FileKeyDirectory):
    left = 5

    def create(self, role, name, secret):
        self.left -= 1
        if self.left < 0:
            raise OSError("no space")
        return super().create(role, name, secret)


async def test_without_its_key_there_is_no_row_and_the_next_run_completes(
    database: Database, keys_dir: Path, database_url: str
) -> None:
    await new_scope(database_url)
    with pytest.raises(OSError, match="no space"):
        await ensure_buckets(database, Keyring(_FullDisk(keys_dir), lambda: 0.0), span_s=DAY)
    # The hold bucket came first, and its key.
    assert await scalar(database_url, "SELECT count(*) FROM buckets WHERE span_start IS NOT NULL") == 0

    await ensure_buckets(database, keyring_of(keys_dir), span_s=DAY)
    assert await scalar(database_url, "SELECT count(*) FROM buckets") >= 11


async def test_partitions_are_made_while_somebody_reads_and_writes(
    database: Database, keyring: Keyring, database_url: str
) -> None:
    await new_scope(database_url)
    await ensure_buckets(database, keyring, span_s=DAY)
    await execute(database_url, "UPDATE scopes SET retention_max_s = $1", 8 * DAY)
    reader = await asyncpg.connect(database_url)
    try:
        async with reader.transaction():
            await reader.fetch("SELECT count(*) FROM bodies")
            made = await ensure_buckets(database, keyring, span_s=DAY)
    finally:
        await reader.close()
    assert made.partitions == 5


async def test_the_service_reaches_partitions_through_bodies_only(
    database: Database, keyring: Keyring, database_url: str
) -> None:
    await new_scope(database_url)
    await ensure_buckets(database, keyring, span_s=DAY)
    service_connection = await asyncpg.connect(database_url, server_settings={"role": "custody_service"})
    try:
        assert await service_connection.fetchval("SELECT count(*) FROM bodies") == 0
        partition = await service_connection.fetchval(
            "SELECT min(inhrelid)::regclass::text FROM pg_inherits WHERE inhparent = 'bodies'::regclass"
        )
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service_connection.fetchval(f"TABLE {partition}")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service_connection.execute("CREATE TABLE spans.mine (n integer)")
    finally:
        await service_connection.close()


async def test_a_partition_keeps_storage_and_checks_of_bodies(
    database: Database, keyring: Keyring, database_url: str
) -> None:
    await new_scope(database_url)
    await ensure_buckets(database, keyring, span_s=DAY)

    storages = await scalar(
        database_url,
        "SELECT array_agg(DISTINCT attstorage::text) FROM pg_attribute a JOIN pg_inherits i ON a.attrelid = i.inhrelid"
        " WHERE i.inhparent = 'bodies'::regclass AND attname = 'ciphertext'",
    )
    lacking = await scalar(
        database_url,
        "SELECT count(*) FROM pg_inherits i WHERE i.inhparent = 'bodies'::regclass AND NOT EXISTS"
        " (SELECT 1 FROM pg_constraint c WHERE c.conrelid = i.inhrelid AND conname = 'bodies_wrapped_60')",
    )
    assert (storages, lacking) == (["e"], 0)


async def _starts(url: str, scope: UUID) -> list[datetime]:
    sql = "SELECT array_agg(span_start ORDER BY span_start) FROM buckets WHERE scope_id = $1 AND span_start IS NOT NULL"
    return list(await scalar(url, sql, scope))
