"""What another scope has is not told, neither by an answer nor by what it takes to find it."""

from pathlib import Path

import pytest

from policies.kinds import Role
from store.services.scopes import Scope, ScopeBook
from tests.support.api import bearer, problem, running, settings_for


async def test_a_scope_out_of_reach_is_not_even_looked_up(
    database_url: str, redis_url: str, keys_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    looked_up: list[str] = []
    look = ScopeBook.by_name

    async def noted(book: ScopeBook, name: str) -> Scope:
        looked_up.append(name)
        return await look(book, name)

    async with running(settings_for(database_url, redis_url, keys_dir)) as api:
        mine, _ = await api.scope(), await api.scope("theirs")
        operator = bearer(await api.key(Role.OPERATOR, mine.scope_id))
        monkeypatch.setattr(ScopeBook, "by_name", noted)
        answers = [
            await api.client.get(f"/v1/scopes/{name}", headers=operator) for name in ("theirs", "nobodys")
        ]
        own = await api.client.get("/v1/scopes/scope-one", headers=operator)
        body: dict[str, object] = {"policy": {}}
        answers += [
            await api.client.put(f"/v1/scopes/{name}/policy", json=body, headers=operator)
            for name in ("theirs", "nobodys")
        ]

    assert [(each.status_code, problem(each)["reason"]) for each in answers] == [(404, "not_found")] * 4
    assert len({each.content for each in answers}) == 1
    assert own.json()["name"] == "scope-one"
    assert looked_up == []
