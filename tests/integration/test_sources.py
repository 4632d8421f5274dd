"""Sources: what their owners do to them, what the log is told, and what the guard may remember."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from policies.kinds import Role
from policies.reasons import Reason
from policies.revocation import NOT_KNOWN, SourceFacts
from store.db import SERVICE_ROLE, Database
from store.errors import Conflict, Malformed, NotFound, Unavailable
from store.ids import ScopeId
from store.services.sources import SourceBook
from store.tables import sources
from tests.support.api import problem
from tests.support.duties import execute, new_scope, scalar
from tests.support.reading import Library, library


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = await Database.open(database_url, role=SERVICE_ROLE, size=4)
    yield opened
    await opened.close()


@pytest.fixture
async def scope(database_url: str) -> ScopeId:
    return ScopeId(await new_scope(database_url))


class Watch:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def known(database: Database, scope: UUID, name: str) -> SourceFacts:
    async with database.connection() as connection:
        return (await sources.facts(connection, scope, [name])).get(name, NOT_KNOWN)


async def put(
    book: SourceBook, scope: ScopeId, *, withdraw: bool = False, audience: list[str] | None = None
) -> int:
    added = await book.put_version(scope, "doc", "op", withdraw_earlier=withdraw, audience=audience)
    return added.version


async def leaves(url: str) -> list[dict[str, Any]]:
    text = await scalar(
        url, "SELECT coalesce(json_agg(convert_from(leaf, 'UTF8')::json ORDER BY id), '[]') FROM log_queue"
    )
    return [dict(each) for each in json.loads(text)]


async def actions(url: str) -> list[str]:
    text = await scalar(
        url, "SELECT string_agg(action || ' ' || target, ',' ORDER BY at, action_id) FROM operator_actions"
    )
    return str(text).split(",")


async def test_versions_are_minted_from_one_and_a_newer_one_alone_changes_nothing(database, scope):
    book = SourceBook(database)
    assert [await put(book, scope), await put(book, scope), await put(book, scope)] == [1, 2, 3]
    assert await known(database, scope, "doc") == SourceFacts(latest=3)


async def test_earlier_versions_can_be_withdrawn_and_each_is_a_leaf(database, scope, database_url):
    book = SourceBook(database)
    await put(book, scope)
    await put(book, scope)
    await put(book, scope, withdraw=True)
    assert await known(database, scope, "doc") == SourceFacts(latest=3, withdrawn=frozenset({1, 2}))
    await put(book, scope, withdraw=True)

    told = await leaves(database_url)
    assert [(leaf["k"], leaf["op"], leaf["sv"]) for leaf in told] == [
        ("revoke", "withdraw", 1),
        ("revoke", "withdraw", 2),
        ("revoke", "withdraw", 3),
    ]
    uid: UUID = await scalar(database_url, "SELECT source_uid FROM sources")
    assert {leaf["si"] for leaf in told} == {uid.hex}


async def test_revoking_and_restoring_a_source_or_one_version(database, scope, database_url):
    book = SourceBook(database)
    await put(book, scope)
    await put(book, scope)
    await book.revoke(scope, "doc", 1, "op")
    await book.revoke(scope, "doc", None, "op")
    assert await known(database, scope, "doc") == SourceFacts(
        revoked=True, latest=2, withdrawn=frozenset({1})
    )
    await book.restore(scope, "doc", None, "op")
    await book.restore(scope, "doc", 1, "op")
    assert await known(database, scope, "doc") == SourceFacts(latest=2)

    assert [(leaf["op"], leaf["sv"]) for leaf in await leaves(database_url)] == [
        ("revoke", 1),
        ("revoke", None),
        ("restore", None),
        ("restore", 1),
    ]
    assert await actions(database_url) == [
        "source_version_added doc v1",
        "source_version_added doc v2",
        "source_revoked doc v1",
        "source_revoked doc",
        "source_restored doc",
        "source_restored doc v1",
    ]


async def test_the_same_again_is_an_action_but_no_leaf(database, scope, database_url):
    book = SourceBook(database)
    await put(book, scope)
    await book.restore(scope, "doc", None, "op")
    await book.revoke(scope, "doc", None, "op")
    first = await scalar(database_url, "SELECT revoked_at FROM sources")
    await book.revoke(scope, "doc", None, "op")
    assert await scalar(database_url, "SELECT revoked_at FROM sources") == first
    assert len(await leaves(database_url)) == 1
    assert len(await actions(database_url)) == 4


@pytest.mark.parametrize(
    ("destroyed", "version"),
    [("sources", None), ("sources", 1), ("source_versions", 1)],
)
async def test_what_was_destroyed_is_not_restored(database, scope, database_url, destroyed, version):
    book = SourceBook(database)
    await put(book, scope)
    await book.revoke(scope, "doc", version, "op")
    statement = {
        "sources": "UPDATE sources SET destroyed = true",
        "source_versions": "UPDATE source_versions SET destroyed = true",
    }[destroyed]
    await execute(database_url, statement)
    before = len(await actions(database_url))
    with pytest.raises(Conflict) as refused:
        await book.restore(scope, "doc", version, "op")
    assert refused.value.reason is Reason.ERASED
    assert "destroyed" in refused.value.detail
    assert len(await leaves(database_url)) == 1
    assert len(await actions(database_url)) == before


async def test_what_is_not_there_is_not_found_and_other_scopes_sources_are_not_there(
    database, scope, database_url
):
    book = SourceBook(database)
    await put(book, scope)
    other = ScopeId(await new_scope(database_url))
    for where, name, version in ((scope, "nope", None), (scope, "doc", 2), (other, "doc", None)):
        with pytest.raises(NotFound):
            await book.revoke(where, name, version, "op")
        with pytest.raises(NotFound):
            await book.restore(where, name, version, "op")
    assert await known(database, other, "doc") == NOT_KNOWN


async def test_an_audience_stays_until_another_is_given(database, scope):
    book = SourceBook(database)
    await put(book, scope, audience=["legal", "legal", "hr"])
    await put(book, scope)
    assert (await known(database, scope, "doc")).audience == {"legal", "hr"}
    await put(book, scope, audience=[])
    assert (await known(database, scope, "doc")).audience == frozenset()
    for wrong in (["a b"], [""], [f"t{number}" for number in range(17)]):
        with pytest.raises(Malformed):
            await put(book, scope, audience=wrong)


async def test_the_guard_remembers_an_answer_for_a_second_and_no_longer(database, scope):
    watch = Watch()
    book = SourceBook(database, watch)
    assert (await book.facts(scope, ["doc"]))["doc"] == NOT_KNOWN
    await put(book, scope)
    watch.now += 0.9
    assert (await book.facts(scope, ["doc"]))["doc"] == NOT_KNOWN
    watch.now += 0.1
    assert (await book.facts(scope, ["doc"]))["doc"] == SourceFacts(latest=1)


async def test_while_the_database_is_away_the_last_answer_serves_and_no_answer_is_an_outage(database, scope):
    watch = Watch()
    book = SourceBook(database, watch)
    await put(book, scope)
    await book.facts(scope, ["doc"])
    await database.close()
    watch.now += 60
    assert (await book.facts(scope, ["doc"]))["doc"] == SourceFacts(latest=1)
    with pytest.raises(Unavailable) as outage:
        await book.facts(scope, ["doc", "other"])
    assert outage.value.reason is Reason.STORE_UNAVAILABLE


async def test_sources_are_listed_by_id(database, scope):
    book = SourceBook(database)
    for name in ("c", "a", "b"):
        await book.put_version(scope, name, "op", withdraw_earlier=False, audience=None)
    first = await book.page(scope, "", 2)
    assert ([row.source for row in first.rows], first.last) == (["a", "b"], "b")
    rest = await book.page(scope, "b", 2)
    assert ([row.source for row in rest.rows], rest.last) == (["c"], None)
    row, versions = await book.one(scope, "a", 10)
    assert (row.latest, [version.version for version in versions]) == (1, [1])
    with pytest.raises(NotFound):
        await book.one(scope, "nope", 10)


# --- over HTTP


@pytest.fixture
async def shelf(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Library]:
    async with library(database_url, redis_url, keys_dir) as opened:
        yield opened


async def test_an_operator_runs_a_source_and_each_step_shows_at_the_next_read(shelf):
    operator, reviewer = await shelf.key(Role.OPERATOR), await shelf.key(Role.REVIEWER)
    client = shelf.api.client

    async def step(method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        response = await client.request(method, f"/v1/sources/{path}", headers=operator, json=body)
        assert response.status_code == 200, response.text
        return dict(response.json())

    assert (await step("PUT", "doc-7", {}))["latest"] == 1
    evidence = await shelf.store(await shelf.house.declare(), b"yes", sources=[("doc-7", 1)])

    async def seen() -> str | None:
        shown = await shelf.json(f"/v1/parts/{evidence}", reviewer)
        reason: str | None = shown["availability"]["reason"]
        content = await shelf.get(f"/v1/parts/{evidence}/content", reviewer)
        assert content.content == b"yes" if reason is None else problem(content)["reason"] == reason
        return reason

    assert await seen() is None
    await step("PUT", "doc-7", {"earlier": "readable"})
    assert await seen() is None
    await step("PUT", "doc-7", {"earlier": "withdrawn"})
    assert await seen() == "dependency_changed"
    await step("POST", "doc-7/restore", {"version": 1})
    assert await seen() is None
    await step("POST", "doc-7/revoke", {"version": 1})
    assert await seen() == "dependency_changed"
    await step("POST", "doc-7/restore", {"version": 1})
    shown = await step("POST", "doc-7/revoke", {})
    assert shown["revoked_at"] is not None
    assert await seen() == "source_unavailable"
    await step("POST", "doc-7/restore", {})
    await step("PUT", "doc-7", {"audience": ["legal"]})
    assert await seen() == "permission_denied"
    one = await step("GET", "doc-7")
    assert (one["latest"], one["audience"], [each["version"] for each in one["versions"]]) == (
        4,
        ["legal"],
        [4, 3, 2, 1],
    )


async def test_a_destroyed_source_is_not_restored_and_the_answer_says_why(shelf):
    operator = await shelf.key(Role.OPERATOR)
    client = shelf.api.client
    await client.put("/v1/sources/doc-7", headers=operator, json={})
    await client.post("/v1/sources/doc-7/revoke", headers=operator, json={})
    await shelf.house.execute("UPDATE sources SET destroyed = true")
    refused = await client.post("/v1/sources/doc-7/restore", headers=operator, json={})
    found = problem(refused)
    assert (refused.status_code, found["reason"]) == (409, "erased")
    assert "destroyed" in str(found["detail"])


async def test_sources_are_the_operators_own_and_of_one_scope(shelf):
    operator = await shelf.key(Role.OPERATOR)
    client = shelf.api.client
    for name in ("a", "b", "c"):
        assert (await client.put(f"/v1/sources/{name}", headers=operator, json={})).status_code == 200
    first = await shelf.json("/v1/sources", operator, limit=2)
    rest = await shelf.json("/v1/sources", operator, limit=2, cursor=first["next"])
    assert [each["source"] for each in first["items"] + rest["items"]] == ["a", "b", "c"]
    assert rest["next"] is None
    for role in (Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR, Role.RUNTIME):
        refused = await shelf.get("/v1/sources", await shelf.key(role))
        assert problem(refused)["reason"] == "permission_denied"
    other = await shelf.key(Role.OPERATOR, await shelf.house.add_scope())
    assert (await shelf.json("/v1/sources", other))["items"] == []
    assert problem(await shelf.get("/v1/sources/a", other))["reason"] == "not_found"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "doc", {"earlier": "gone"}), ("PUT", "doc", {"audience": ["a b"]}), ("PUT", "doc", {"version": 3}),
        ("PUT", "-doc", {}), ("POST", "doc/revoke", {"version": 0}), ("POST", "doc/revoke", {"version": True}),
        ("POST", "doc/restore", {"versions": 1}),
    ],
)  # fmt: skip
async def test_what_a_source_call_does_not_understand_is_refused(shelf, method, path, body):
    operator = await shelf.key(Role.OPERATOR)
    refused = await shelf.api.client.request(method, f"/v1/sources/{path}", headers=operator, json=body)
    assert (problem(refused)["reason"], refused.status_code) == ("malformed_request", 400)
