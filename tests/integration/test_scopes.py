"""Scopes and policies over the wire: who may change what, and how soon a change holds."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from policies.documents import PolicyFault
from policies.kinds import Role
from policies.scope_policy import ScopePolicy
from store.errors import Unavailable
from store.services.scopes import AGE_S, ScopeBook
from store.tables import batch
from tests.support.api import Api, bearer, problem, running, settings_for
from tests.support.outages import postgres_away


@pytest.fixture
async def api(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Api]:
    async with running(settings_for(database_url, redis_url, keys_dir, run_parts="7")) as api:
        yield api


async def test_an_operator_of_the_store_makes_scopes_with_the_policy_of_the_settings(api: Api):
    operator = bearer(await api.key(Role.OPERATOR))

    created = await api.client.post("/v1/scopes", json={"name": "team-a"}, headers=operator)
    again = await api.client.post("/v1/scopes", json={"name": "team-a"}, headers=operator)
    read = await api.client.get("/v1/scopes/team-a", headers=operator)

    assert created.status_code == 201
    assert created.json()["policy_version"] == 1
    assert created.json()["policy"]["limits"]["run_parts"] == 7
    assert read.json() == created.json()
    assert (again.status_code, problem(again)["reason"]) == (409, "identity_conflict")


async def test_every_fault_of_a_policy_is_named_at_once_and_no_value(api: Api):
    operator = bearer(await api.key(Role.OPERATOR))
    policy = {"retention": {"default": 3, "max": "CANARY-7f3a"}, "sampling": 7, "color": "CANARY-7f3a"}

    response = await api.client.post("/v1/scopes", json={"name": "a", "policy": policy}, headers=operator)

    found = problem(response)
    assert (response.status_code, found["reason"]) == (400, "malformed_request")
    for field in ("retention.default", "retention.max", "sampling", "color"):
        assert field in str(found["detail"])
    assert "CANARY" not in response.text


async def test_a_scopes_operator_changes_its_own_policy_and_the_version_goes_up(api: Api):
    scope = await api.scope()
    operator = bearer(await api.key(Role.OPERATOR, scope.scope_id))
    body = {"policy": {"retention": {"default": "1d", "max": "2d"}}}

    changed = await api.client.put("/v1/scopes/scope-one/policy", json=body, headers=operator)
    again = await api.client.put("/v1/scopes/scope-one/policy", json=body, headers=operator)
    listed = await api.client.get("/v1/scopes", headers=operator)

    assert (changed.status_code, changed.json()["policy_version"]) == (200, 2)
    assert changed.json()["policy"]["retention"] == {"default": "1d", "max": "2d"}
    assert again.json()["policy_version"] == 2
    assert [each["policy_version"] for each in listed.json()["items"]] == [2]


async def test_a_scopes_operator_neither_makes_scopes_nor_sees_others(api: Api):
    own, _ = await api.scope("own"), await api.scope("foreign")
    operator = bearer(await api.key(Role.OPERATOR, own.scope_id))

    creating = await api.client.post("/v1/scopes", json={"name": "third"}, headers=operator)
    foreign = await api.client.get("/v1/scopes/foreign", headers=operator)
    none = await api.client.get("/v1/scopes/nobodys", headers=operator)
    editing = await api.client.put("/v1/scopes/foreign/policy", json={"policy": {}}, headers=operator)
    listed = await api.client.get("/v1/scopes", headers=operator)

    assert (creating.status_code, problem(creating)["reason"]) == (403, "permission_denied")
    assert foreign.status_code == none.status_code == editing.status_code == 404
    assert foreign.content == none.content
    assert [each["name"] for each in listed.json()["items"]] == ["own"]


async def test_custody_scope_names_the_scope_for_the_whole_stores_operator(api: Api):
    scope, other = await api.scope("one"), await api.scope("two")
    everywhere = bearer(await api.key(Role.OPERATOR))
    within = bearer(await api.key(Role.OPERATOR, scope.scope_id))

    made = await api.client.post(
        "/v1/keys", json={"role": "runtime"}, headers=everywhere | {"Custody-Scope": "two"}
    )
    agreeing = await api.client.get("/v1/keys", headers=within | {"Custody-Scope": "one"})
    contradicting = await api.client.get("/v1/keys", headers=within | {"Custody-Scope": "two"})
    unknown = await api.client.get("/v1/keys", headers=everywhere | {"Custody-Scope": "three"})
    repeated = await api.client.get(
        "/v1/keys", headers=[*everywhere.items(), ("Custody-Scope", "one"), ("Custody-Scope", "two")]
    )

    assert made.json()["key"]["scope_id"] == str(other.scope_id)
    assert agreeing.status_code == 200
    assert (contradicting.status_code, problem(contradicting)["reason"]) == (400, "malformed_request")
    assert unknown.status_code == 404
    assert repeated.status_code == 400


async def test_a_name_that_is_no_id_is_refused(api: Api):
    operator = bearer(await api.key(Role.OPERATOR))
    for name in ("", ".", "..", "-x", "a/b", "a b", "x" * 129, "ä"):
        response = await api.client.post("/v1/scopes", json={"name": name}, headers=operator)

        assert (response.status_code, problem(response)["reason"]) == (400, "malformed_request"), name


TWO_READERS = [
    b'{"name": "a", "name": "b"}',
    b'{"name": "a", "policy": {"content": "opt_out", "content": "allow"}}',
    b'{"name": "a", "policy": {"sampling": NaN}}',
    b'{"name": "\xed\xa0\xbd"}',
    b"[" * 20_000,
    b"",
    b"null",
    b'{"name": "a", "surprise": 1}',
]


async def test_a_body_that_two_readers_could_read_differently_is_refused(api: Api):
    operator = bearer(await api.key(Role.OPERATOR)) | {"Content-Type": "application/json"}
    for body in TWO_READERS:
        response = await api.client.post("/v1/scopes", content=body, headers=operator)

        assert (response.status_code, problem(response)["reason"]) == (400, "malformed_request"), body[:40]
    assert await api.services.scopes.all_scopes() == []


async def test_a_body_that_is_no_json_or_coded_is_not_taken(api: Api):
    operator = bearer(await api.key(Role.OPERATOR))
    body = json.dumps({"name": "a"})

    text = await api.client.post(
        "/v1/scopes", content=body, headers=operator | {"Content-Type": "text/plain"}
    )
    coded = await api.client.post(
        "/v1/scopes",
        content=body,
        headers=operator | {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    )
    large = await api.client.post(
        "/v1/scopes", json={"name": "a", "policy": {"x": "y" * 100_000}}, headers=operator
    )

    assert [text.status_code, coded.status_code, large.status_code] == [415, 415, 413]
    assert problem(text)["reason"] == problem(coded)["reason"] == "unsupported_media"
    assert large.headers["connection"] == "close"


async def test_a_retention_that_no_spans_can_serve_is_refused_since_all_scopes_share_them(api: Api):
    operator = bearer(await api.key(Role.OPERATOR))
    policy: dict[str, object] = {"retention": {"max": "2000d"}, "metadata_retention": "3000d"}
    made = await api.client.post("/v1/scopes", json={"name": "long", "policy": policy}, headers=operator)
    scope = await api.scope()
    with pytest.raises(PolicyFault, match=r"retention\.max"):
        await api.services.scopes.put_policy(scope.scope_id, policy, "operator")

    assert made.status_code == 400
    assert "retention.max" in problem(made)["detail"]  # type: ignore[operator] # a text
    policy["retention"] = {"max": "1900d"}
    assert (await api.services.scopes.put_policy(scope.scope_id, policy, "operator")).version == 2


async def test_other_processes_see_a_changed_policy_within_a_second(api: Api):
    scope = await api.scope()
    book = ScopeBook(api.services.database)
    assert (await book.get(scope.scope_id)).version == 1

    await api.services.scopes.put_policy(scope.scope_id, {"sampling": 0.5}, "operator")
    async with asyncio.timeout(AGE_S + 1):
        while (await book.get(scope.scope_id)).version == 1:  # noqa: ASYNC110 - time itself is waited for
            await asyncio.sleep(0.02)

    assert (await api.services.scopes.get(scope.scope_id)).policy.sampling == 0.5


async def test_a_policy_that_a_newer_version_wrote_is_an_outage_and_nobodys_fault(
    api: Api, database_url: str
):
    scope = await api.scope()
    owner = await asyncpg.connect(database_url)
    await owner.execute("""UPDATE scopes SET policy = policy || '{"newer": true}'""")
    await owner.close()

    with pytest.raises(Unavailable, match="store_unavailable"):
        await ScopeBook(api.services.database).get(scope.scope_id)
    with pytest.raises(Unavailable, match="store_unavailable"):
        async with api.services.database.connection() as connection:
            await batch.scope_demands(connection, [scope.scope_id])


async def test_the_last_known_policy_stays_in_force_while_postgres_is_away(
    api: Api, postgres_url: str, database_url: str
):
    book = api.services.scopes
    scope = await api.scope()
    assert (await book.get(scope.scope_id)).policy == ScopePolicy.from_document(scope.policy.to_document())

    async with postgres_away(postgres_url, database_url):
        known = [await book.get(scope.scope_id) for _ in range(3)]

    assert {each.version for each in known} == {1}
