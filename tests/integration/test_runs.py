"""Declaring runs over the wire: what is admitted, how a run is narrowed, and what outages change."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from redis.asyncio import Redis

from policies.kinds import Role
from policies.revocation import Binding
from store import tickets
from store.clock import utc_now
from store.errors import Unavailable
from store.queue import RunKey
from store.services.admission import Sending
from store.services.scopes import Scope
from store.tables import runs
from tests.support.api import Api, bearer, problem, running, settings_for
from tests.support.outages import NOWHERE, postgres_away


@pytest.fixture
async def api(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Api]:
    async with running(settings_for(database_url, redis_url, keys_dir, run_view_age="100ms")) as api:
        yield api


@pytest.fixture
async def scope(api: Api) -> Scope:
    return await api.scope()


@pytest.fixture
async def runtime(api: Api, scope: Scope) -> dict[str, str]:
    return await api.runtime(scope)


async def declare(api: Api, headers: dict[str, str], run: str = "run-1", **said: Any) -> httpx.Response:
    return await api.client.put(f"/v1/runs/{run}", json=said, headers=headers)


async def row(database_url: str, run: str = "run-1") -> asyncpg.Record:
    connection = await asyncpg.connect(database_url)
    try:
        found = await connection.fetchrow("SELECT *, now() AS now FROM runs WHERE run = $1", run)
    finally:
        await connection.close()
    assert isinstance(found, asyncpg.Record)
    return found


async def test_a_declaration_answers_the_whole_admission(api: Api, scope: Scope, runtime: dict[str, str]):
    response = await declare(
        api, runtime, retention="2d", labels={"team": "search"}, sources=[{"source": "doc-7", "version": 3}]
    )

    answer = response.json()
    assert response.status_code == 201
    assert answer | {"ticket": "", "ticket_expires_at": "", "retain_until": ""} == {
        "run_id": "run-1",
        "admitted": True,
        "reason": None,
        "mode": "normal",
        "content": "allow",
        "kinds": ["logical-request", "observable-output"],
        "limits": {
            "part_bytes": 262_144,
            "run_parts": 128,
            "run_bytes": 16 << 20,
            "run_waiting_parts": 32,
            "run_waiting_bytes": 4 << 20,
            "run_waiting_notes": 128,
        },
        "retain_until": "",
        "policy_version": 1,
        "ticket": "",
        "ticket_expires_at": "",
        "effective": "now",
        "sources": [{"source": "doc-7", "version": 3}],
    }
    ticket = tickets.read(api.services.keyring.token_key("ticket"), answer["ticket"], utc_now())
    assert (ticket.scope, ticket.run, ticket.shared) == (scope.scope_id, "run-1", False)
    assert ticket.key_id == runtime["Authorization"].split("_")[2]
    assert ticket.retain_until == datetime.fromisoformat(answer["retain_until"])


async def test_retention_is_fixed_by_database_time(api: Api, runtime: dict[str, str], database_url: str):
    answer = (await declare(api, runtime, retention="2d")).json()

    kept = await row(database_url)
    assert kept["retain_until"] == kept["declared_at"] + timedelta(days=2)
    assert datetime.fromisoformat(answer["retain_until"]) == kept["retain_until"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"mode": "temporary"}, "temporary_mode"),
        ({"content": "opt_out"}, "content_opt_out"),
        ({"mode": "temporary", "content": "opt_out"}, "temporary_mode"),
        ({"erase": True}, "erased"),
    ],
)
async def test_a_run_that_is_not_admitted_says_why_and_has_no_ticket(
    api: Api, scope: Scope, runtime: dict[str, str], said: dict[str, Any], reason: str
):
    answer = (await declare(api, runtime, **said)).json()
    view = await api.services.runs.view(RunKey(scope.scope_id, "run-1"))

    assert (answer["admitted"], answer["reason"], answer["ticket"]) == (False, reason, None)
    assert view is not None
    assert view.state == reason


async def test_the_strictest_wins_and_widening_is_ignored(api: Api, runtime: dict[str, str]):
    first = (
        await declare(api, runtime, retention="2d", labels={"a": "1"}, sources=[{"source": "s1"}])
    ).json()
    longer = (await declare(api, runtime, retention="20d", sources=[{"source": "s2"}])).json()
    shorter = (await declare(api, runtime, retention="1d", labels={"a": "2"})).json()
    opted_out = (await declare(api, runtime, content="opt_out")).json()
    back = (await declare(api, runtime, content="allow", retention="2d")).json()

    assert longer["retain_until"] == first["retain_until"]
    assert longer["sources"] == [{"source": "s1", "version": None}, {"source": "s2", "version": None}]
    assert shorter["retain_until"] < first["retain_until"]
    assert (opted_out["admitted"], opted_out["reason"]) == (False, "content_opt_out")
    assert (back["admitted"], back["content"]) == (False, "opt_out")
    assert back["retain_until"] == shorter["retain_until"]


async def test_labels_and_subject_are_set_once_and_the_subject_is_kept_only_as_a_hash(
    api: Api, runtime: dict[str, str], database_url: str
):
    await declare(api, runtime, labels={"team": "search", "stage": "two"}, subject="person-CANARY")
    await declare(api, runtime, labels={"team": "other"}, subject="person-other")

    kept = await row(database_url)
    assert kept["labels"] == ["stage=two", "team=search"]
    assert len(kept["subject"]) == 32
    assert "CANARY" not in repr(dict(kept))


async def test_a_temporary_run_keeps_its_id_and_mode_and_nothing_else(
    api: Api, runtime: dict[str, str], database_url: str
):
    said: dict[str, Any] = {"labels": {"a": "b"}, "subject": "x", "sources": [{"source": "s"}]}
    await declare(api, runtime, mode="temporary", **said)
    await declare(api, runtime, mode="normal", **said)

    kept = await row(database_url)
    assert (kept["mode"], kept["labels"], kept["subject"], kept["default_set"]) == (
        "temporary",
        [],
        None,
        None,
    )


async def test_a_normal_run_that_turns_temporary_is_an_opt_out_and_stays_findable(
    api: Api, runtime: dict[str, str], database_url: str
):
    await declare(api, runtime, subject="x")

    answer = (await declare(api, runtime, mode="temporary")).json()

    assert (answer["reason"], (await row(database_url))["mode"]) == ("temporary_mode", "temporary")
    assert (await row(database_url))["subject"] is not None


async def test_only_the_declaring_key_speaks_for_a_run_unless_it_is_shared(
    api: Api, scope: Scope, runtime: dict[str, str]
):
    other = await api.runtime(scope)
    await declare(api, runtime, "mine")
    await declare(api, runtime, "ours", shared=True)

    mine = await declare(api, other, "mine")
    ours = await declare(api, other, "ours")
    await declare(api, runtime, "ours", shared=False)
    no_longer = await declare(api, other, "ours")

    for refused in (mine, no_longer):
        assert (refused.status_code, problem(refused)["reason"]) == (403, "permission_denied")
    assert (ours.status_code, ours.json()["admitted"]) == (200, True)


async def post(api: Api, headers: dict[str, str], run: str, **more: str) -> httpx.Response:
    path = f"/v1/runs/{run}/exchanges/x/attempts/a/parts/logical-request"
    return await api.client.put(path, content=b"{}", headers=headers | more)


async def test_a_run_that_is_no_longer_shared_takes_no_more_on_others_tickets(
    api: Api, scope: Scope, runtime: dict[str, str]
):
    api.services.keyring.create_intake_keys(utc_now(), ahead=1)
    other = await api.runtime(scope)
    await declare(api, runtime, "ours", shared=True)
    ticket = {"Custody-Ticket": (await declare(api, other, "ours")).json()["ticket"]}
    before = await post(api, other, "ours", **ticket)

    await declare(api, runtime, "ours", shared=False)
    after = await post(api, other, "ours", **ticket)

    assert before.status_code == 202
    assert (after.status_code, problem(after)["reason"]) == (403, "ticket_invalid")
    assert after.json()["receipt"]["recorded"] is False


async def test_whoever_has_no_ticket_of_anothers_run_learns_nothing_and_leaves_nothing(
    api: Api, scope: Scope, runtime: dict[str, str]
):
    other = await api.runtime(scope)
    await declare(api, runtime, "mine", content="opt_out")

    mine, others = await post(api, runtime, "mine"), await post(api, other, "mine")

    assert (mine.status_code, problem(mine)["reason"]) == (403, "content_opt_out")
    assert (others.status_code, problem(others)["reason"]) == (403, "ticket_invalid")
    assert (mine.json()["receipt"]["recorded"], others.json()["receipt"]["recorded"]) == (True, False)
    assert [entry.type for entry in await api.services.queue.take(0, "looking", 10, 1)] == ["gap"]


async def test_the_same_run_id_in_two_scopes_is_two_runs(api: Api, runtime: dict[str, str]):
    foreign = await api.runtime(await api.scope("foreign"))
    await declare(api, runtime, content="opt_out")

    assert (await declare(api, foreign)).status_code == 201


async def test_sampling_is_drawn_once_and_by_run(api: Api, database_url: str):
    scope = await api.scope("sampled", sampling=0.5)
    runtime = await api.runtime(scope)

    answers = {f"r{n}": (await declare(api, runtime, f"r{n}")).json() for n in range(40)}
    again = {run: (await declare(api, runtime, run)).json() for run in answers}

    reasons = {answer["reason"] for answer in answers.values()}
    assert reasons == {None, "not_sampled"}
    assert {run: answer["reason"] for run, answer in again.items()} == {
        run: answer["reason"] for run, answer in answers.items()
    }


NOT_UNDERSTOOD: list[dict[str, Any]] = [
    {"retention": 3},
    {"retention": "3"},
    {"retention": "-1d"},
    {"retention": ""},
    {"mode": "CANARY"},
    {"content": "false"},
    {"surprise": 1},
    {"labels": {"a=b": "c"}},
    {"labels": {"a": "x" * 257}},
    {"labels": {"a": "nul\x00"}},
    {"labels": {str(n): "x" for n in range(17)}},
    {"labels": {"": "x"}},
    {"sources": [{"source": f"s{n}"} for n in range(33)]},
    {"sources": [{"source": "../x"}]},
    {"sources": [{"source": "x", "version": 0}]},
    {"subject": ""},
    {"subject": "x" * 257},
    {"shared": "yes"},
]


async def test_a_declaration_that_is_not_understood_declares_nothing(
    api: Api, scope: Scope, runtime: dict[str, str]
):
    for said in NOT_UNDERSTOOD:
        response = await declare(api, runtime, **said)

        assert (response.status_code, problem(response)["reason"]) == (400, "malformed_request"), said
        assert "CANARY" not in response.text
    assert await api.services.runs.view(RunKey(scope.scope_id, "run-1")) is None


async def test_a_run_that_is_no_id_is_refused(api: Api, runtime: dict[str, str]):
    for run in ("-x", ".hidden", "x" * 129, "a%20b", "%C3%A4"):
        assert (await declare(api, runtime, run)).status_code == 400, run


async def test_more_sources_over_all_declarations_than_one_may_name_are_refused(
    api: Api, runtime: dict[str, str]
):
    await declare(api, runtime, sources=[{"source": f"a{n}"} for n in range(20)])

    response = await declare(api, runtime, sources=[{"source": f"b{n}"} for n in range(13)])

    assert (response.status_code, problem(response)["reason"]) == (400, "malformed_request")


async def test_only_runtimes_declare(api: Api, scope: Scope):
    for role in (Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR, Role.OPERATOR):
        response = await declare(api, bearer(await api.key(role, scope.scope_id)))

        assert (response.status_code, problem(response)["reason"]) == (403, "permission_denied"), role


async def test_a_stricter_policy_narrows_runs_that_are_declared_again(
    api: Api, scope: Scope, runtime: dict[str, str]
):
    first = (await declare(api, runtime)).json()
    policy = {"kinds": ["logical-request"], "retention": {"max": "1d"}, "limits": {"run_parts": 5}}
    await api.services.scopes.put_policy(scope.scope_id, policy, "operator")

    again = (await declare(api, runtime)).json()

    assert again["kinds"] == ["logical-request"]
    assert again["retain_until"] < first["retain_until"]
    assert (again["policy_version"], again["limits"]["run_parts"]) == (2, 5)
    view = await api.services.queue.run_view(RunKey(scope.scope_id, "run-1"))
    assert view is not None
    assert view.policy_version == 2


async def test_erasing_marks_the_run_and_asks_for_its_destruction_once(
    api: Api, runtime: dict[str, str], database_url: str
):
    await declare(api, runtime)
    answers = [(await declare(api, runtime, erase=True)).json() for _ in range(2)]

    kept = await row(database_url)
    connection = await asyncpg.connect(database_url)
    erasures = await connection.fetch("SELECT target_kind, run_uid, state FROM erasures")
    await connection.close()
    assert {answer["reason"] for answer in answers} == {"erased"}
    assert kept["erased"]
    assert [tuple(each) for each in erasures] == [("run", kept["run_uid"], "accepted")]


async def test_ten_declare_one_run_at_once_and_all_are_answered_the_same(api: Api, runtime: dict[str, str]):
    answers = await asyncio.gather(*[declare(api, runtime, retention=f"{days}d") for days in range(1, 11)])

    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
    last = (await declare(api, runtime)).json()
    assert last["retain_until"] == min(answer.json()["retain_until"] for answer in answers)


async def test_narrowing_reaches_every_process_at_once(api: Api, scope: Scope, runtime: dict[str, str]):
    # The view of this process, which is not the one that declares.
    book, key = api.services.runs, RunKey(scope.scope_id, "run-1")
    await declare(api, runtime)
    before = await book.view(key)

    await declare(api, runtime, content="opt_out")
    async with asyncio.timeout(1):
        while (await book.view(key)) == before:  # noqa: ASYNC110 - another process is what is waited for
            await asyncio.sleep(0.01)

    after = await book.view(key)
    assert (before.state, after.state) == ("open", "content_opt_out")  # type: ignore[union-attr] # both are there


async def test_a_run_that_redis_forgot_is_known_again_from_the_database(
    api: Api, scope: Scope, runtime: dict[str, str]
):
    book, key = api.services.runs, RunKey(scope.scope_id, "run-1")
    await declare(api, runtime, sources=[{"source": "doc-7", "version": 3}])
    await api.services.queue.forget_run(key)
    book.forget(key)

    view = await book.view(key)

    assert view is not None
    assert (view.state, view.sources) == ("open", frozenset({Binding("doc-7", 3)}))
    assert await api.services.queue.run_view(key) is not None


async def test_a_run_past_its_retention_is_not_brought_back_into_redis(
    api: Api, scope: Scope, runtime: dict[str, str], database_url: str
):
    book, key = api.services.runs, RunKey(scope.scope_id, "run-1")
    await declare(api, runtime)
    connection = await asyncpg.connect(database_url)
    await connection.execute("UPDATE runs SET retain_until = now()")
    await connection.close()
    await api.services.queue.forget_run(key)
    book.forget(key)

    view = await book.view(key)

    assert view is not None
    assert view.state == "retention_expired"
    assert await api.services.queue.run_view(key) is None
    assert (await declare(api, runtime)).json()["reason"] == "retention_expired"


async def test_a_run_that_nobody_declared_is_none(api: Api, scope: Scope):
    assert await api.services.runs.view(RunKey(scope.scope_id, "nobodys")) is None
    assert await api.services.runs.reopen(RunKey(scope.scope_id, "nobodys")) is None


async def test_gaps_may_be_left_by_whoever_may_declare(api: Api, scope: Scope, runtime: dict[str, str]):
    owner = runtime["Authorization"].split("_")[2]
    await declare(api, runtime, "mine")
    await declare(api, runtime, "ours", shared=True)
    book = api.services.runs

    async def recordable(key_id: str, run: str) -> bool:
        return await book.recordable(Sending(key_id, scope.scope_id), RunKey(scope.scope_id, run)) is not None

    assert await recordable(owner, "mine")
    assert not await recordable("0123456789abcdef", "mine")
    assert await recordable("0123456789abcdef", "ours")
    assert not await recordable(owner, "nobodys")


async def test_while_redis_is_away_a_narrowing_holds_at_the_write(
    database_url: str, redis_url: str, keys_dir: Path
):
    async with running(settings_for(database_url, redis_url, keys_dir)) as api:
        scope = await api.scope()
        runtime = await api.runtime(scope)
        await declare(api, runtime)
    async with running(settings_for(database_url, NOWHERE, keys_dir)) as cut_off:
        narrowed = await declare(cut_off, runtime, content="opt_out")
        new = await declare(cut_off, runtime, "run-2")
        with pytest.raises(Unavailable, match="queue_unavailable"):
            await cut_off.services.runs.view(RunKey(scope.scope_id, "run-1"))
    async with running(settings_for(database_url, redis_url, keys_dir)) as api:
        stale = await api.services.queue.run_view(RunKey(scope.scope_id, "run-1"))
        again = await declare(api, runtime)
        lowered = await api.services.queue.run_view(RunKey(scope.scope_id, "run-1"))

    assert (narrowed.status_code, narrowed.json()["effective"]) == (202, "at_write")
    assert narrowed.json()["reason"] == "content_opt_out"
    assert (new.status_code, new.json()["admitted"], new.json()["effective"]) == (202, True, "at_write")
    assert (again.status_code, again.json()["effective"]) == (200, "now")
    assert stale is not None
    assert lowered is not None
    assert (stale.state, lowered.state) == ("open", "content_opt_out")


async def test_whose_a_run_is_and_what_it_depends_on_is_known_without_postgres(
    api: Api, scope: Scope, runtime: dict[str, str], postgres_url: str, database_url: str
):
    await declare(api, runtime, sources=[{"source": "doc-7", "version": 3}])
    await declare(api, runtime, sources=[{"source": "doc-8"}])

    async with postgres_away(postgres_url, database_url):
        view = await api.services.runs.view(RunKey(scope.scope_id, "run-1"))

    assert view is not None
    assert view.sources == {Binding("doc-7", 3), Binding("doc-8", None)}
    assert view.speaks(runtime["Authorization"].split("_")[2]) is True
    assert view.speaks("0" * 16) is False


async def test_a_word_that_the_queue_missed_holds_by_the_row(
    api: Api, scope: Scope, runtime: dict[str, str], redis_url: str
):
    await declare(api, runtime, sources=[{"source": "doc-7"}], shared=True)
    key, client = RunKey(scope.scope_id, "run-1"), Redis.from_url(redis_url)
    name = f"custody:{{q0}}:run:{scope.scope_id.hex}:run-1"
    fields = ("shared", "many", "sources")
    before = dict(zip(fields, await client.hmget(name, *fields), strict=True))
    await declare(api, runtime, sources=[{"source": "doc-8"}], shared=False)
    # As if Redis had been away when that was declared.
    await client.hset(name, mapping=before)
    await client.aclose()
    api.services.runs.forget(key)

    view = await api.services.runs.view(key)

    assert view is not None
    assert view.sources == {Binding("doc-7", None), Binding("doc-8", None)}
    assert view.speaks("0" * 16) is False


async def test_a_run_that_an_earlier_version_opened_is_known_by_its_ticket_while_postgres_is_away(
    api: Api, scope: Scope, runtime: dict[str, str], postgres_url: str, database_url: str, redis_url: str
):
    ticket = (await declare(api, runtime, sources=[{"source": "doc-7", "version": 3}])).json()["ticket"]
    await api.services.scopes.get(scope.scope_id)
    sending = Sending(runtime["Authorization"].split("_")[2], scope.scope_id)
    client = Redis.from_url(redis_url)
    await client.hdel(f"custody:{{q0}}:run:{scope.scope_id.hex}:run-1", "owner", "shared", "many", "sources")
    await client.aclose()

    async with postgres_away(postgres_url, database_url):
        view = await api.services.runs.view(RunKey(scope.scope_id, "run-1"))
        sender = await api.services.admission.sender(sending, "run-1", ticket)

    assert view is not None
    assert (view.state, view.sources) == ("open", frozenset())
    assert sender.view.sources == {Binding("doc-7", 3)}


async def test_while_postgres_is_away_losses_of_a_run_never_seen_are_no_refusal(
    api: Api, scope: Scope, runtime: dict[str, str], postgres_url: str, database_url: str
):
    await declare(api, runtime, "seen")
    async with running(api.services.settings) as fresh:
        # Whose key it is, is known; which runs there are, is not.
        await fresh.client.get("/v1/receipts/none", headers=runtime)
        async with postgres_away(postgres_url, database_url):
            answer = await fresh.client.post(
                "/v1/runs/seen/gaps",
                json={"gaps": [{"session": "s", "sequences": "1", "reason": "client_queue_full"}]},
                headers=runtime,
            )

    assert (answer.status_code, problem(answer)["reason"]) == (503, "store_unavailable")
    assert (answer.json()["recorded"], answer.json()["retryable"]) == (False, False)


async def test_while_postgres_is_away_declaring_answers_503_and_declared_runs_go_on(
    api: Api, scope: Scope, runtime: dict[str, str], postgres_url: str, database_url: str
):
    await declare(api, runtime)
    book = api.services.runs
    known = await book.view(RunKey(scope.scope_id, "run-1"))

    async with postgres_away(postgres_url, database_url):
        again = await declare(api, runtime)
        await asyncio.sleep(0.2)
        still = await book.view(RunKey(scope.scope_id, "run-1"))
        with pytest.raises(Unavailable, match="store_unavailable"):
            await book.view(RunKey(scope.scope_id, "unseen"))

    assert again.status_code == 503
    assert (problem(again)["reason"], problem(again)["retryable"]) == ("store_unavailable", True)
    assert still == known


async def test_runs_that_are_asked_for_at_once_are_each_told_of_its_own(api: Api, scope: Scope):
    other = await api.scope("other")
    mine, theirs = await api.runtime(scope), await api.runtime(other)
    for headers in (mine, theirs):
        await declare(api, headers, "same-name")
    await declare(api, theirs, "only-theirs")
    uids = {}
    async with api.services.database.connection() as connection:
        for of, run in ((scope, "same-name"), (other, "same-name"), (other, "only-theirs")):
            row = await runs.by_name(connection, of.scope_id, run)
            assert row is not None
            uids[of.scope_id, run] = row.run_uid

    wanted = [(of.scope_id, run) for of in (scope, other) for run in ("same-name", "nobody", "only-theirs")]
    views = await asyncio.gather(*(api.services.runs.view(RunKey(of, run)) for of, run in wanted))

    assert [view and view.run_uid for view in views] == [uids.get(each) for each in wanted]
    assert [view and view.owner_key for view in views] == [
        None
        if each not in uids
        else (mine if each[0] == scope.scope_id else theirs)["Authorization"].split("_")[2]
        for each in wanted
    ]
