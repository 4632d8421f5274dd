"""Closing runs over the wire: what is announced, what still counts, and what nobody can take back."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from redis.asyncio import Redis

from policies.kinds import SaidBy
from policies.sequences import SequenceSet
from store.ids import new_id
from store.queue import RunKey
from store.services.scopes import Scope
from store.tables import runs, sessions
from tests.support.api import Api, problem, running, settings_for
from tests.support.capture import capturing
from tests.support.outages import NOWHERE


@pytest.fixture
async def api(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Api]:
    async with running(settings_for(database_url, redis_url, keys_dir)) as api:
        yield api


@pytest.fixture
async def scope(api: Api) -> Scope:
    return await api.scope()


@pytest.fixture
async def runtime(api: Api, scope: Scope) -> dict[str, str]:
    headers = await api.runtime(scope)
    assert (await api.client.put("/v1/runs/run-1", json={}, headers=headers)).status_code == 201
    return headers


async def close(
    api: Api, headers: dict[str, str], named: dict[str, Any], run: str = "run-1"
) -> httpx.Response:
    return await api.client.post(f"/v1/runs/{run}/close", json={"sessions": named}, headers=headers)


async def record(database_url: str, scope: Scope, **facts: Any) -> None:
    """Write what a writer would have: gaps of a session of the run."""
    connection = await asyncpg.connect(database_url)
    run_uid = await connection.fetchval("SELECT run_uid FROM runs WHERE run = 'run-1'")
    await connection.execute(
        "INSERT INTO gaps (scope_id, run_uid, gap_id, said_by, reason, session, sequences, first_at, last_at) "
        "VALUES ($1, $2, $3, $4, $5, $6, $7::text::int8multirange, now(), now())",
        scope.scope_id, run_uid, new_id(), facts["said_by"], facts["reason"], facts["session"], facts["sequences"],
    )  # fmt: skip
    await connection.close()


async def test_a_closing_says_how_the_run_stands(
    api: Api, scope: Scope, runtime: dict[str, str], database_url: str
):
    await record(
        database_url, scope, said_by="store", reason="capacity_exceeded", session="s1", sequences="{[2,4)}"
    )
    await record(
        database_url, scope, said_by="client", reason="client_shutdown", session="s1", sequences="{[3,6)}"
    )

    response = await close(api, runtime, {"s1": 10, "s2": 0, "s3": None})

    answer = response.json()
    assert response.status_code == 200
    assert (answer["run_id"], answer["state"], answer["effective"]) == ("run-1", "closing", "now")
    assert answer["closing_until"] is not None
    assert answer["complete"] is None
    assert answer["sessions"] == [
        {"session": "s1", "announced": 10, "stored": 0, "refused": 2, "lost": 2, "open": 6},
        {"session": "s2", "announced": 0, "stored": 0, "refused": 0, "lost": 0, "open": 0},
    ]


async def test_the_queue_then_takes_only_what_was_announced(api: Api, scope: Scope, runtime: dict[str, str]):
    await close(api, runtime, {"s1": 3})

    view = await api.services.queue.run_view(RunKey(scope.scope_id, "run-1"))

    assert view is not None
    assert (view.state, dict(view.announced)) == ("closing", {"s1": 3})


async def test_again_changes_nothing_and_of_two_numbers_the_larger_stays(
    api: Api, scope: Scope, runtime: dict[str, str]
):
    first = (await close(api, runtime, {"s1": 5})).json()
    smaller = (await close(api, runtime, {"s1": 2})).json()
    larger = (await close(api, runtime, {"s1": 7, "s2": 1})).json()

    assert smaller == first
    assert larger["closing_until"] == first["closing_until"]
    assert [(each["session"], each["announced"]) for each in larger["sessions"]] == [("s1", 7), ("s2", 1)]
    view = await api.services.queue.run_view(RunKey(scope.scope_id, "run-1"))
    assert view is not None
    assert dict(view.announced) == {"s1": 7, "s2": 1}


async def test_once_closed_nothing_changes_any_more(api: Api, scope: Scope, runtime: dict[str, str]):
    await close(api, runtime, {"s1": 0})
    async with api.services.database.transaction() as connection:
        row = await runs.by_name(connection, scope.scope_id, "run-1")
        assert row is not None
        assert await runs.set_closed(connection, scope.scope_id, row.run_uid, b"o" * 32, never_closed=False)
        assert not await runs.set_closed(
            connection, scope.scope_id, row.run_uid, b"o" * 32, never_closed=True
        )

    late = await close(api, runtime, {"s1": 9, "s2": 4})

    assert (late.status_code, late.json()["state"], late.json()["complete"]) == (200, "closed", True)
    assert [(each["session"], each["announced"]) for each in late.json()["sessions"]] == [("s1", 0)]
    declared = await api.client.put("/v1/runs/run-1", json={}, headers=runtime)
    assert (declared.json()["admitted"], declared.json()["reason"]) == (False, "run_closed")


async def test_a_closing_run_still_gets_tickets_for_what_is_on_its_way(api: Api, runtime: dict[str, str]):
    await close(api, runtime, {"s1": 5})

    declared = (await api.client.put("/v1/runs/run-1", json={}, headers=runtime)).json()

    assert (declared["admitted"], declared["ticket"] is not None) == (True, True)


async def test_only_who_may_declare_may_close(api: Api, scope: Scope, runtime: dict[str, str]):
    other = await api.runtime(scope)

    foreign = await close(api, other, {"s1": 1})
    nobodys = await close(api, runtime, {"s1": 1}, "nobodys")

    assert (foreign.status_code, problem(foreign)["reason"]) == (403, "permission_denied")
    assert (nobodys.status_code, problem(nobodys)["reason"]) == (403, "run_not_admitted")


async def test_numbers_that_cannot_be_are_refused(api: Api, runtime: dict[str, str]):
    for named in ({"s1": -1}, {"s1": 10**9 + 1}, {"s1": 1.5}, {"s1": "3"}, {"s1": True}, {"../x": 1}):
        response = await close(api, runtime, named)

        assert (response.status_code, problem(response)["reason"]) == (400, "malformed_request"), named


async def test_sessions_are_bounded_over_all_calls(api: Api, runtime: dict[str, str]):
    await close(api, runtime, {f"a{n}": 1 for n in range(200)})

    response = await close(api, runtime, {f"b{n}": 1 for n in range(57)})

    assert (response.status_code, problem(response)["reason"]) == (400, "malformed_request")


async def test_a_temporary_run_leaves_no_session(api: Api, scope: Scope):
    runtime = await api.runtime(scope)
    await api.client.put("/v1/runs/passing", json={"mode": "temporary"}, headers=runtime)

    answer = (await close(api, runtime, {"s1": 3}, "passing")).json()

    assert (answer["state"], answer["sessions"]) == ("closing", [])


async def test_a_run_that_redis_forgot_is_closed_there_too(api: Api, scope: Scope, runtime: dict[str, str]):
    key = RunKey(scope.scope_id, "run-1")
    await api.services.queue.forget_run(key)

    answer = (await close(api, runtime, {"s1": 3})).json()

    view = await api.services.queue.run_view(key)
    assert answer["effective"] == "now"
    assert view is not None
    assert (view.state, dict(view.announced)) == ("closing", {"s1": 3})


async def test_a_closing_run_that_redis_forgot_still_takes_what_was_announced(
    database_url: str, redis_url: str, keys_dir: Path
):
    async with capturing(database_url, redis_url, keys_dir) as runtime:
        queue, key = runtime.api.services.queue, RunKey(runtime.scope.scope_id, runtime.run)
        until = (await close(runtime.api, runtime.key, {"s1": 3, "s2": None})).json()["closing_until"]
        ends = await field(redis_url, key, "closing_until")
        # By a restore, which lets the queue begin anew, or by a loss of its data.
        await queue.begin_anew(0)
        runtime.api.services.runs.forget(key)

        late = await runtime.put(b"late", custody_session="s1", custody_sequence="3")

        assert (late.status_code, late.json()["capture"]) == (202, "queued")
        assert (await field(redis_url, key, "closing_until"), until is not None) == (ends, True)
        view = await queue.run_view(key)
        assert view is not None
        assert (view.state, dict(view.announced)) == ("closing", {"s1": 3})
        beyond = await runtime.put(b"beyond", "x-2", custody_session="s1", custody_sequence="4")
        assert (beyond.status_code, beyond.json()["reason"]) == (403, "run_closed")


async def field(redis_url: str, key: RunKey, name: str) -> int:
    """What the queue knows of a run under this name."""
    client = Redis.from_url(redis_url)
    try:
        (found,) = [each async for each in client.scan_iter(f"*:run:{key.scope.hex}:*")]
        return int(await client.hget(found, name) or 0)
    finally:
        await client.aclose()


async def test_while_redis_is_away_a_closing_is_taken_and_holds_at_the_write(
    database_url: str, redis_url: str, keys_dir: Path
):
    async with running(settings_for(database_url, NOWHERE, keys_dir)) as cut_off:
        scope = await cut_off.scope()
        runtime = await cut_off.runtime(scope)
        await cut_off.client.put("/v1/runs/run-1", json={}, headers=runtime)
        response = await close(cut_off, runtime, {"s1": 3})

    assert (response.status_code, response.json()["effective"]) == (202, "at_write")
    assert response.json()["state"] == "closing"


async def test_duties_find_runs_that_are_due(
    api: Api, scope: Scope, runtime: dict[str, str], database_url: str
):
    async with api.services.database.transaction() as connection:
        silent = await runs.never_closed_due(connection, scope.scope_id, 0.0, 10)
        assert await runs.never_closed_due(connection, scope.scope_id, 60.0, 10) == []
    await close(api, runtime, {"s1": 3})
    await record(
        database_url, scope, said_by="client", reason="client_shutdown", session="s1", sequences="{[1,3)}"
    )
    async with api.services.database.transaction() as connection:
        due = await runs.closing_due(connection, scope.scope_id, 0.0, 10)
        assert await runs.closing_due(connection, scope.scope_id, 60.0, 10) == []
        missing = await sessions.gap_numbers(connection, scope.scope_id, due[0].run_uid)
        assert await sessions.unnumbered_parts(connection, scope.scope_id, due[0].run_uid) == 0

    assert [each.run for each in silent] == [each.run for each in due] == ["run-1"]
    assert missing == {SaidBy.CLIENT: {"s1": SequenceSet.up_to(2)}}


@pytest.mark.parametrize("said", [{}, {"shared": True}, {"subject": "somebody"}, {"content": "opt_out"}])
async def test_a_run_that_is_declared_again_gives_a_sign(
    said: dict[str, Any], api: Api, scope: Scope, runtime: dict[str, str], database_url: str
):
    connection = await asyncpg.connect(database_url)
    await connection.execute(
        "UPDATE runs SET declared_at = declared_at - $1::interval, retain_until = retain_until - $1::interval",
        timedelta(hours=25),
    )
    await connection.close()

    async def silent() -> list[str]:
        async with api.services.database.connection() as connection:
            due = await runs.never_closed_due(connection, scope.scope_id, 86_400.0, 10)
        return [each.run for each in due]

    assert await silent() == ["run-1"]
    # Whoever may not speak for the run gives none.
    other = await api.runtime(scope)
    assert (await api.client.put("/v1/runs/run-1", json=said, headers=other)).status_code == 403
    assert await silent() == ["run-1"]
    assert (await api.client.put("/v1/runs/run-1", json=said, headers=runtime)).status_code == 200
    assert await silent() == []
