"""Erasures, duties and completeness over the wire; and the canary that goes over it by itself."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from policies.kinds import Role
from store.db import Database
from store.ids import ScopeId
from store.keyring import Keyring
from store.services.buckets import ensure_buckets
from store.services.duties import perform
from store.services.purge import Purge
from store.wiring import canary_of, duties_of, open_services
from tests.support.api import Api, bearer, problem, running, settings_for
from tests.support.duties import execute, new_parts, new_run, scalar
from tests.support.publication import publish_at_once
from workers.writer import Writer

DAY = 86_400


@pytest.fixture
async def api(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Api]:
    async with running(settings_for(database_url, redis_url, keys_dir)) as api:
        yield api


async def _scope(api: Api, database: Database, keyring: Keyring) -> ScopeId:
    scope = await api.scope()
    await ensure_buckets(database, keyring, span_s=DAY)
    return scope.scope_id


async def test_an_erasure_from_being_asked_to_being_purged(
    api: Api, database: Database, keyring: Keyring, database_url: str
) -> None:
    scope = await _scope(api, database, keyring)
    operator = bearer(await api.key(Role.OPERATOR, scope))
    run = await new_run(database_url, scope, retain_until=datetime.now(UTC) + timedelta(days=1), run="r-1")
    part, _ = await new_parts(database_url, scope, run, 2)
    await publish_at_once(database_url)

    first = await api.client.post("/v1/erasures", json={"part": str(part)}, headers=operator)
    again = await api.client.post("/v1/erasures", json={"part": str(part)}, headers=operator)
    whole = await api.client.post("/v1/erasures", json={"run": "r-1"}, headers=operator)

    assert (first.status_code, first.json()["state"], first.json()["target"]) == (202, "purging", "part")
    assert again.json() == first.json()
    assert (whole.status_code, whole.json()["state"], whole.json()["evidence"]) == (202, "accepted", None)
    assert first.headers["cache-control"] == "no-store"

    await Purge(database, keyring, api.services.queue).run()
    one = await api.client.get(f"/v1/erasures/{first.json()['erasure_id']}", headers=operator)
    assert one.json()["state"] == "purged"
    assert one.json()["purged_at"] is not None

    page = (await api.client.get("/v1/erasures?limit=1", headers=operator)).json()
    rest = (await api.client.get(f"/v1/erasures?limit=1&cursor={page['next']}", headers=operator)).json()
    assert [each["target"] for each in page["items"] + rest["items"]] == ["run", "part"]
    assert rest["next"] is None


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({"part": str(uuid4())}, 404, "not_found"),
        ({"part": "no-uuid"}, 404, "not_found"),
        ({"run": "nobodys"}, 404, "not_found"),
        ({"run": "r-1", "exchange": "x", "attempt": "a", "kind": "logical-request"}, 404, "not_found"),
        ({"run": "r-1", "exchange": "x"}, 400, "malformed_request"),
        ({"run": "r-1", "part": str(uuid4())}, 400, "malformed_request"),
        ({"run": "../r"}, 400, "malformed_request"),
        ({}, 400, "malformed_request"),
        ({"source": "s"}, 404, "not_found"),
        ({"subject": "nobody"}, 404, "not_found"),
        ({"source": "s", "subject": "somebody"}, 400, "malformed_request"),
        ({"source": "s", "exchange": "x"}, 400, "malformed_request"),
        ({"subject": "\u0000"}, 400, "malformed_request"),
        ({"object": "s"}, 400, "malformed_request"),
    ],
)
async def test_what_cannot_be_erased_says_why(
    api: Api, body: dict[str, str], status: int, reason: str
) -> None:
    scope = await api.scope()
    operator = bearer(await api.key(Role.OPERATOR, scope.scope_id))

    answer = await api.client.post("/v1/erasures", json=body, headers=operator)

    assert (answer.status_code, problem(answer)["reason"]) == (status, reason)


async def test_another_scopes_part_and_erasure_are_not_found(
    api: Api, database: Database, keyring: Keyring, database_url: str
) -> None:
    scope = await _scope(api, database, keyring)
    other = await api.scope("other")
    run = await new_run(database_url, scope, retain_until=datetime.now(UTC) + timedelta(days=1), run="r-1")
    (part,) = await new_parts(database_url, scope, run)
    mine = bearer(await api.key(Role.OPERATOR, scope))
    foreign = bearer(await api.key(Role.OPERATOR, other.scope_id))
    asked = await api.client.post("/v1/erasures", json={"run": "r-1"}, headers=mine)

    for answer in (
        await api.client.post("/v1/erasures", json={"part": str(part)}, headers=foreign),
        await api.client.post("/v1/erasures", json={"run": "r-1"}, headers=foreign),
        await api.client.get(f"/v1/erasures/{asked.json()['erasure_id']}", headers=foreign),
        await api.client.get("/v1/erasures/nonsense", headers=foreign),
    ):
        assert (answer.status_code, problem(answer)["reason"]) == (404, "not_found")


@pytest.mark.parametrize("role", [Role.RUNTIME, Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR])
async def test_only_operators_ask_and_look(api: Api, role: Role) -> None:
    scope = await api.scope()
    headers = bearer(await api.key(role, scope.scope_id))
    for answer in (
        await api.client.post("/v1/erasures", json={"run": "r-1"}, headers=headers),
        await api.client.get("/v1/erasures", headers=headers),
        await api.client.get("/v1/duties", headers=headers),
        await api.client.get("/v1/completeness", headers=headers),
    ):
        assert (answer.status_code, problem(answer)["reason"]) == (403, "permission_denied")


async def test_duties_show_how_they_stand(api: Api, database: Database) -> None:
    operator = bearer(await api.key(Role.OPERATOR))

    async def done() -> dict[str, int]:
        return {"purged": 2}

    await perform(database, "purge", done)
    answer = await api.client.get("/v1/duties", headers=operator)

    rows = {row["duty"]: row for row in answer.json()["items"]}
    assert {"buckets", "expiry", "purge", "reconcile", "intake_keys"} <= set(rows)
    assert rows["purge"]["last_outcome"] == "ok purged=2"
    assert rows["purge"]["lag_s"] < 60
    assert rows["purge"]["running"] is False
    assert rows["expiry"] == {
        "duty": "expiry", "running": False, "last_started": None, "last_finished": None, "last_success": None,
        "last_outcome": "never", "lag_s": None, "next_by": None,
    }  # fmt: skip


async def test_completeness_counts_no_number_twice(
    api: Api, database: Database, keyring: Keyring, database_url: str
) -> None:
    scope = await _scope(api, database, keyring)
    until = datetime.now(UTC) + timedelta(days=1)
    run = await new_run(database_url, scope, retain_until=until, run="r-1")
    await new_parts(database_url, scope, run, 4, session="s-1")
    ranges = (
        "INSERT INTO gaps (scope_id, run_uid, gap_id, said_by, reason, session, sequences, merged, first_at, last_at)"
        " VALUES ($1, $2, gen_random_uuid(), $3, $4, 's-1', $5::text::int8multirange, $6, now(), now())"
    )
    # 4 was refused and stored later; 6 was said by both sides; two more lost their numbers.
    await execute(database_url, ranges, scope, run, "store", "capacity_exceeded", "{[4,7)}", 2)
    await execute(database_url, ranges, scope, run, "client", "client_transport", "{[6,8)}", 0)
    lost = await new_run(database_url, scope, retain_until=until, run="r-2")
    await execute(
        database_url,
        "UPDATE runs SET state = 'closed', closed_at = now(), never_closed = true, close_opening = $2"
        " WHERE run_uid = $1",
        lost, bytes(32),
    )  # fmt: skip
    operator = bearer(await api.key(Role.OPERATOR))

    answer = (await api.client.get("/v1/completeness", headers=operator)).json()

    (day,) = answer["items"]
    assert day == {
        "scope": "scope-one", "day": datetime.now(UTC).date().isoformat(), "runs": 2, "closed": 0, "never_closed": 1,
        "observed": 9, "stored": 4, "missing": 5,
        "missing_by_reason": {"capacity_exceeded": 4, "client_transport": 2},
    }  # fmt: skip
    foreign = await api.scope("other")
    own = bearer(await api.key(Role.OPERATOR, foreign.scope_id))
    assert (await api.client.get("/v1/completeness?days=31", headers=own)).json()["items"] == []
    assert (await api.client.get("/v1/completeness?days=32", headers=own)).status_code == 400


async def test_the_canary_goes_the_whole_way_and_says_where_it_stopped(
    database_url: str, redis_url: str, keys_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(database_url, redis_url, keys_dir)
    async with open_services(settings, duties=True) as services:
        duties = duties_of(services)
        scope = await canary_of(services).scope()
        for name in ("intake_keys", "buckets"):
            assert (await duties.perform(name)).succeeded
        stop = asyncio.Event()
        writer = Writer.of(settings, services.database, services.keyring, services.queue)
        writing = asyncio.create_task(writer.run(stop))

        assert (await duties.perform("canary")).word == "ok"
        assert (await duties.perform("canary")).word == "ok"

        stop.set()
        await writing
        monkeypatch.setattr("store.services.canary._STORED_WITHIN_S", 0.3)
        assert (await duties.perform("canary")).word == "failed: store_unavailable"
    counted = "SELECT count(*) FROM parts WHERE scope_id = $1"
    assert await scalar(database_url, counted, scope) == 2
    assert await scalar(
        database_url, "SELECT array_agg(DISTINCT outcome || ' ' || purpose) FROM accesses"
    ) == ["read canary"]
