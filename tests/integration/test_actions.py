"""What operators did, over HTTP: who may see it, of which scope, page by page; and that nobody changes it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from policies.kinds import Role
from tests.support.api import Api, bearer, problem, running, settings_for


@pytest.fixture
async def api(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Api]:
    async with running(settings_for(database_url, redis_url, keys_dir)) as opened:
        yield opened


async def listed(api: Api, headers: dict[str, str], **params: Any) -> list[dict[str, Any]]:
    page = (await api.client.get("/v1/actions", headers=headers, params=params)).json()
    items = list(page["items"])
    while page["page"]["next"] is not None:
        more = {**params, "cursor": page["page"]["next"]}
        page = (await api.client.get("/v1/actions", headers=headers, params=more)).json()
        items += page["items"]
    return items


async def test_auditors_and_operators_see_what_was_done_in_their_scope(api):
    scope, other = await api.scope(), await api.scope("another")
    operator, auditor = [
        bearer(await api.key(role, scope.scope_id)) for role in (Role.OPERATOR, Role.AUDITOR)
    ]
    for more in ({}, {"Custody-Purpose": "ticket 12"}):
        assert (await api.client.put("/v1/sources/doc-1", json={}, headers={**operator, **more})).is_success
    await api.client.put(
        "/v1/sources/doc-2", json={}, headers=bearer(await api.key(Role.OPERATOR, other.scope_id))
    )

    seen = await listed(api, auditor, limit=2)
    assert [(each["action"], each["target"]) for each in seen[:2]] == [
        ("source_version_added", "doc-1 v2"), ("source_version_added", "doc-1 v1"),
    ]  # fmt: skip
    assert [each["purpose"] for each in seen] == ["ticket 12", *[None] * (len(seen) - 1)]
    assert {each["key_id"] for each in seen[:2]} == {operator["Authorization"].split("_")[2]}
    assert (seen[-1]["action"], seen[-1]["key_id"]) == ("scope_created", "command-line")
    assert await listed(api, operator, order="oldest", limit=1) == seen[::-1]
    assert await listed(api, operator, to=seen[0]["at"]) == seen[1:]
    for role in (Role.REVIEWER, Role.CUSTODIAN, Role.RUNTIME):
        refused = await api.client.get("/v1/actions", headers=bearer(await api.key(role, scope.scope_id)))
        assert problem(refused)["reason"] == "permission_denied"


async def test_a_purpose_that_no_record_could_show_is_refused(api):
    scope = await api.scope()
    operator = bearer(await api.key(Role.OPERATOR, scope.scope_id))
    for wrong in ("", "x" * 201):
        answer = await api.client.put(
            "/v1/sources/doc-1", json={}, headers={**operator, "Custody-Purpose": wrong}
        )
        assert problem(answer)["reason"] == "malformed_request"
    assert "source_version_added" not in {each["action"] for each in await listed(api, operator)}


async def test_what_belongs_to_no_scope_is_for_operators_of_the_whole_store(api):
    await api.scope()
    whole = await api.key(Role.OPERATOR)
    store_wide = await listed(api, bearer(whole))
    assert [(each["action"], each["target"]) for each in store_wide] == [("key_created", whole.split("_")[2])]
    named = await listed(api, {**bearer(whole), "Custody-Scope": "scope-one"})
    assert [each["action"] for each in named] == ["scope_created"]
