"""Access records: grouped, committed before the answer, listed for those who may see them, changed by nobody."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from policies.kinds import Role
from policies.reasons import Reason
from store.db import DUTIES_ROLE, SERVICE_ROLE, Database
from store.errors import Unavailable
from store.services.access import READ, AccessLog
from store.tables import accesses
from store.tables.accesses import Access
from tests.support.api import problem
from tests.support.duties import execute, new_scope, scalar
from tests.support.reading import Library, library


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = await Database.open(database_url, role=SERVICE_ROLE, size=4)
    yield opened
    await opened.close()


def one(**facts: Any) -> Access:
    usual: dict[str, Any] = {
        "scope_id": uuid4(), "key_id": "k", "role": Role.REVIEWER, "evidence": uuid4(), "purpose": None,
        "outcome": READ,
    }  # fmt: skip
    return Access(**{**usual, **facts})


async def test_a_record_is_committed_once_record_returns(database, database_url):
    log, access = AccessLog(database), one(purpose="why", outcome="erased")
    await log.record(access)
    row = await scalar(
        database_url, "SELECT (scope_id, key_id, role, evidence, purpose, outcome)::text FROM accesses"
    )
    assert row == f"({access.scope_id},k,reviewer,{access.evidence},why,erased)"


async def test_reads_at_one_moment_share_a_transaction(database, database_url, monkeypatch):
    groups: list[int] = []
    insert = accesses.insert

    async def counted(connection: Any, group: Any) -> None:
        groups.append(len(group))
        await insert(connection, group)

    monkeypatch.setattr(accesses, "insert", counted)
    log = AccessLog(database)
    await asyncio.gather(*(log.record(one()) for _ in range(100)))
    assert await scalar(database_url, "SELECT count(*) FROM accesses") == 100
    assert sum(groups) == 100
    assert len(groups) <= 3
    # Nothing is left over that a later record would wait for.
    await log.record(one())
    await log.close()
    assert groups[-1] == 1


async def test_an_outage_is_said_to_everybody_who_waits_and_is_over_when_it_is_over(database, database_url):
    log = AccessLog(database)
    await execute(database_url, "REVOKE INSERT ON accesses FROM custody_service")
    answers = await asyncio.gather(*(log.record(one()) for _ in range(5)), return_exceptions=True)
    assert all(
        isinstance(answer, Unavailable) and answer.reason is Reason.STORE_UNAVAILABLE for answer in answers
    )
    await execute(database_url, "GRANT INSERT ON accesses TO custody_service")
    await log.record(one())
    assert await scalar(database_url, "SELECT count(*) FROM accesses") == 1


async def test_a_month_without_a_table_is_an_outage_and_no_fault_of_the_reader(database, database_url):
    await execute(
        database_url,
        "DO $$ DECLARE t regclass; BEGIN"
        " FOR t IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'accesses'::regclass"
        " LOOP EXECUTE 'DROP TABLE ' || t; END LOOP; END $$",
    )
    with pytest.raises(Unavailable):
        await AccessLog(database).record(one())


async def test_who_stops_waiting_leaves_the_others_and_the_record(database, database_url):
    log = AccessLog(database)
    impatient = asyncio.create_task(log.record(one()))
    await asyncio.sleep(0)
    patient = asyncio.create_task(log.record(one()))
    await asyncio.sleep(0)
    impatient.cancel()
    await patient
    await log.close()
    assert await scalar(database_url, "SELECT count(*) FROM accesses") == 2


@pytest.mark.parametrize("role", [SERVICE_ROLE, DUTIES_ROLE])
async def test_nobody_changes_or_removes_a_record(database_url, role):
    connection = await asyncpg.connect(database_url, server_settings={"role": role})
    try:
        for statement in ("UPDATE accesses SET outcome = 'x'", "DELETE FROM accesses", "TRUNCATE accesses"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    finally:
        await connection.close()


# --- over HTTP


@pytest.fixture
async def shelf(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Library]:
    async with library(database_url, redis_url, keys_dir, page_examined="200") as opened:
        yield opened


async def listed(shelf: Library, headers: dict[str, str], **params: Any) -> list[dict[str, Any]]:
    page = await shelf.json("/v1/accesses", headers, **params)
    items = list(page["items"])
    while page["page"]["next"] is not None:
        page = await shelf.json("/v1/accesses", headers, **params, cursor=page["page"]["next"])
        items += page["items"]
    return items


async def test_reads_and_refusals_are_listed_by_time_part_and_key(shelf):
    run = await shelf.house.declare()
    first = await shelf.store(run, b"1", exchange="x-1")
    second = await shelf.store(run, b"2", exchange="x-2")
    one_key, other_key = await shelf.key(Role.REVIEWER), await shelf.key(Role.CUSTODIAN)
    for headers, evidence in ((one_key, first), (other_key, first), (one_key, second)):
        await shelf.get(f"/v1/parts/{evidence}/content", {**headers, "Custody-Purpose": "p"})
    await shelf.house.execute("UPDATE runs SET erased = true")
    await shelf.get(f"/v1/parts/{second}/content", other_key)
    # What is not there leaves no record: there is nothing that it could be about.
    await shelf.get(f"/v1/parts/{uuid4()}/content", one_key)

    auditor = await shelf.key(Role.AUDITOR)
    everything = await listed(shelf, auditor, limit=3)
    assert [(item["evidence"], item["role"], item["purpose"], item["outcome"]) for item in everything] == [
        (str(second), "custodian", None, "erased"), (str(second), "reviewer", "p", "read"),
        (str(first), "custodian", "p", "read"), (str(first), "reviewer", "p", "read"),
    ]  # fmt: skip
    assert await listed(shelf, auditor, order="oldest", limit=1) == everything[::-1]
    assert await listed(shelf, auditor, evidence=str(first), limit=1) == everything[2:]
    assert await listed(shelf, auditor, evidence=str(first), order="oldest") == everything[:1:-1]
    assert await listed(shelf, auditor, key_id=everything[0]["key_id"], limit=1) == everything[::2]
    assert await listed(shelf, auditor, to=everything[1]["at"]) == everything[2:]
    refused = await shelf.get("/v1/accesses", auditor, params={"key_id": "k", "evidence": str(first)})
    assert problem(refused)["reason"] == "malformed_request"


async def test_who_may_see_access_records_and_of_which_scope(shelf):
    evidence = await shelf.store(await shelf.house.declare(), b"1")
    reviewer = await shelf.key(Role.REVIEWER)
    await shelf.get(f"/v1/parts/{evidence}/content", reviewer)
    for role in (Role.AUDITOR, Role.OPERATOR, Role.CUSTODIAN):
        assert len(await listed(shelf, await shelf.key(role))) == 1
    for role in (Role.REVIEWER, Role.RUNTIME):
        assert (
            problem(await shelf.get("/v1/accesses", await shelf.key(role)))["reason"] == "permission_denied"
        )
    other = await shelf.house.add_scope()
    assert await listed(shelf, await shelf.key(Role.AUDITOR, other)) == []


async def test_a_rare_key_may_take_several_pages(shelf, database_url):
    scope = shelf.house.scope
    await execute(
        database_url,
        "INSERT INTO accesses (scope_id, at, access_id, key_id, role, evidence, outcome)"
        " SELECT $1, now() + i * interval '1 second', gen_random_uuid(),"
        " CASE WHEN i % 300 = 0 THEN 'rare' ELSE 'k' END, 'reviewer', gen_random_uuid(), 'read'"
        " FROM generate_series(1, 700) i",
        scope,
    )
    auditor = await shelf.key(Role.AUDITOR)
    first = await shelf.json("/v1/accesses", auditor, key_id="rare", order="oldest")
    assert (first["items"], first["page"]["next"] is None) == ([], False)
    assert len(await listed(shelf, auditor, key_id="rare", order="oldest")) == 2


async def test_another_scope_s_table_of_records_stays_apart(database, database_url):
    log, mine = AccessLog(database), await new_scope(database_url)
    await log.record(one(scope_id=mine))
    await log.record(one())
    assert await scalar(database_url, "SELECT count(*) FROM accesses WHERE scope_id = $1", mine) == 1
