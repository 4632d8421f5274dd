"""How much a key reads is counted, and much more than usual is an alarm."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from policies.kinds import Role
from store.db import DUTIES_ROLE, SERVICE_ROLE, Database
from store.services.access import READ, AccessLog
from store.services.housekeeping import Months
from store.services.metrics import Metrics
from store.services.read_volume import FLOOR, ReadVolume
from store.tables.accesses import Access
from tests.support.duties import execute, new_scope, scalar
from tests.support.logs import heard

SCOPE = uuid4()
# What a key read in this hour of the days before, yesterday first; what it reads now; whether that is an alarm.
CASES = {
    "new-few": ((), 3 * FLOOR, False),
    "new-many": ((), 3 * FLOOR + 1, True),
    # Three days of seven say nothing of what is usual, four do.
    "seldom": ((500, 500, 500), 3 * FLOOR + 1, True),
    "often-few": ((500, 500, 0, 0, 500, 500), 3 * 500, False),
    "often-many": ((500, 500, 0, 0, 500, 500), 3 * 500 + 1, True),
    "little": ((1,) * 7, 3 * FLOOR, False),
}


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = await Database.open(database_url, role=SERVICE_ROLE, size=2)
    yield opened
    await opened.close()


def reads(times: int, key_id: str = "k", scope: UUID = SCOPE) -> list[Access]:
    return [Access(scope, key_id, Role.REVIEWER, uuid4(), None, READ)] * times


async def usually(url: str, key_id: str, *by_day: int) -> None:
    """What a key read in this hour of the last days."""
    for days, count in enumerate(by_day, 1):
        if count:
            await execute(
                url, "INSERT INTO read_counts VALUES ($1, $2, date_trunc('hour', now()) - $3::interval, $4)",
                SCOPE, key_id, timedelta(days=days), count,
            )  # fmt: skip


async def test_every_record_is_counted_by_key_and_hour(database, database_url):
    log = AccessLog(database, ReadVolume(database, Metrics()))
    await log.record(reads(1)[0])
    await log.record_all(reads(3, "other"))
    await log.record(reads(1, "other")[0])
    await log.close()
    rows = "SELECT json_object_agg(key_id, reads) FROM read_counts WHERE hour = date_trunc('hour', now())"
    assert json.loads(await scalar(database_url, rows)) == {"k": 1, "other": 4}


async def test_three_times_the_usual_is_an_alarm_said_once_an_hour_for_all_processes(database, database_url):
    metrics, alarmed = Metrics(), {key for key, (_, _, alarm) in CASES.items() if alarm}
    for key, (before, _, _) in CASES.items():
        await usually(database_url, key, *before)
    with heard() as lines:
        # No process alone sees too much; the last finds what was told already.
        await one_process(database, metrics, {key: now - 1 for key, (_, now, _) in CASES.items()})
        await one_process(database, metrics, dict.fromkeys(CASES, 1))
        await one_process(database, metrics, dict.fromkeys(alarmed, 1))
    said = [json.loads(line) for line in lines.getvalue().splitlines()]
    told = {line["key_id"]: line["count"] for line in said if line["event"] == "unusual_reads"}
    assert told == {key: CASES[key][1] for key in alarmed}
    assert metrics.registry.get_sample_value("custody_unusual_reads_total") == len(alarmed)


async def one_process(database: Database, metrics: Metrics, counts: dict[str, int]) -> None:
    volume = ReadVolume(database, metrics)
    for key, count in counts.items():
        volume.count(reads(count, key))
    await volume.close()


async def test_counts_are_written_by_themselves_and_after_an_outage_again(database, database_url):
    volume = ReadVolume(database, Metrics(), written_after_s=0.01)
    await execute(database_url, "REVOKE INSERT ON read_counts FROM custody_service")
    volume.count(reads(2))
    await volume.write()
    await execute(database_url, "GRANT INSERT ON read_counts TO custody_service")
    volume.count(reads(1))
    assert volume._writing is not None
    await volume._writing
    assert await scalar(database_url, "SELECT sum(reads) FROM read_counts") == 3


async def test_what_nobody_needs_is_forgotten(database_url):
    duties = await Database.open(database_url, role=DUTIES_ROLE, size=2)
    await usually(database_url, "k", *(1,) * 9)
    young, old = await new_scope(database_url), await new_scope(database_url)
    await execute(database_url, "UPDATE scopes SET metadata_retention_s = 86400 WHERE scope_id = $1", old)
    for scope in (young, old):
        await execute(
            database_url,
            "INSERT INTO exports (scope_id, export_id, requested_by, requested_at, evidence, runs, anchors, tree_size)"
            " VALUES ($1, gen_random_uuid(), 'k', now() - interval '2 days', '{}', '{}', '{}', 1)",
            scope,
        )
    # Hours of more than eight days ago, and the export that its scope's metadata were kept as long as.
    assert (await Months(duties, timedelta(minutes=30)).run())["forgotten"] == 3
    assert await scalar(database_url, "SELECT array_agg(scope_id) FROM exports") == [young]
    await duties.close()
