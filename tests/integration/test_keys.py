"""Keys over the wire: who is let in, who makes keys, and what an outage of Postgres changes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import httpx
import pytest

from policies.kinds import Role
from store.services.keys import COMMAND_LINE, KEY_TEXT, Wanted
from tests.support.api import DAY, Api, bearer, problem, running, settings_for
from tests.support.outages import postgres_away

REFRESH = "200ms"


@pytest.fixture
async def api(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Api]:
    async with running(settings_for(database_url, redis_url, keys_dir, key_refresh=REFRESH)) as api:
        yield api


async def until_unauthenticated(api: Api, headers: dict[str, str]) -> httpx.Response:
    """Ask until the key is refused; the revocation of a key takes at most the refresh."""
    for _ in range(50):
        response = await api.client.get("/v1/scopes", headers=headers)
        if response.status_code == 401:
            return response
        assert response.status_code in (200, 403)
    raise AssertionError("the key was never refused")


async def made(api: Api, headers: dict[str, str], **wanted: object) -> tuple[str, str]:
    """Make a key over HTTP; return its id and its text."""
    response = await api.client.post("/v1/keys", json=wanted, headers=headers)
    assert response.status_code == 201, response.text
    answer = response.json()
    return answer["key"]["key_id"], answer["text"]


async def test_the_text_of_a_key_has_its_form_and_only_its_digest_is_kept(api: Api, database_url: str):
    text = await api.key(Role.OPERATOR)

    found = KEY_TEXT.fullmatch(text)
    assert found is not None
    assert text.split("_") == ["ck", "operator", found["id"], found["secret"]]
    connection = await asyncpg.connect(database_url)
    row = await connection.fetchval(
        "SELECT row_to_json(k)::text FROM api_keys k WHERE key_id = $1", found["id"]
    )
    await connection.close()
    assert found["secret"] not in row


async def test_the_text_of_a_key_is_in_no_repr(api: Api):
    created = await api.services.keys.create(Wanted(Role.OPERATOR, None, DAY), COMMAND_LINE)
    assert created.text.rpartition("_")[2] not in repr(created)


NOT_KNOWN = [
    None,
    "",
    "Bearer",
    "Basic {text}",
    "Bearer {text}x",
    "Bearer {other_secret}",
    "Bearer {other_role}",
    "Bearer {text} {text}",
    "Bearer ck_operator_0123456789abcdef_" + "A" * 43,
]


async def test_whoever_is_not_known_is_unauthenticated_and_learns_nothing_more(api: Api):
    text = await api.key(Role.OPERATOR)
    changed = {
        "text": text,
        "other_secret": text[:-1] + ("A" if text[-1] != "A" else "B"),
        "other_role": text.replace("operator", "runtime"),
    }
    for shown in NOT_KNOWN:
        headers = {} if shown is None else {"Authorization": shown.format(**changed)}

        response = await api.client.get("/v1/keys", headers=headers)

        found = problem(response)
        assert (response.status_code, found["reason"], found["retryable"]) == (
            401,
            "unauthenticated",
            False,
        ), shown
        assert found["detail"] == found["title"]
        assert response.headers["www-authenticate"] == "Bearer"


async def test_authorization_said_twice_is_malformed(api: Api):
    text = await api.key(Role.OPERATOR)

    response = await api.client.get(
        "/v1/keys", headers=[("Authorization", f"Bearer {text}"), ("Authorization", f"Bearer {text}")]
    )

    assert problem(response)["reason"] == "malformed_request"
    assert response.status_code == 400


async def test_a_key_made_over_http_works_and_its_secret_is_shown_once(api: Api):
    scope = await api.scope()
    operator = bearer(await api.key(Role.OPERATOR, scope.scope_id))

    key_id, text = await made(api, operator, role="runtime", note="the crawler")

    declared = await api.client.put("/v1/runs/run-1", json={}, headers=bearer(text))
    assert declared.status_code == 201
    listed = await api.client.get("/v1/keys", headers=operator)
    assert key_id in [each["key_id"] for each in listed.json()["items"]]
    assert text.rpartition("_")[2] not in listed.text


async def test_every_creation_is_an_operator_action(api: Api):
    scope = await api.scope()
    operator = await api.key(Role.OPERATOR, scope.scope_id)
    key_id, _ = await made(api, bearer(operator), role="auditor")

    actions = (await api.client.get("/v1/actions", headers=bearer(operator))).json()["items"]

    said = [(action["action"], action["key_id"], action["target"]) for action in actions]
    operator_id = operator.split("_")[2]
    assert ("key_created", operator_id, key_id) in said
    assert ("key_created", COMMAND_LINE, operator_id) in said


async def test_a_key_that_reads_content_or_operates_needs_a_second_operator(api: Api):
    scope = await api.scope()
    one, other = [bearer(await api.key(Role.OPERATOR, scope.scope_id)) for _ in range(2)]
    for role, reaches in (("reviewer", 403), ("custodian", 403), ("operator", 200)):
        key_id, text = await made(api, one, role=role)

        before = await api.client.get("/v1/scopes", headers=bearer(text))
        by_oneself = await api.client.post(f"/v1/keys/{key_id}/confirm", headers=one)
        confirmed = await api.client.post(f"/v1/keys/{key_id}/confirm", headers=other)
        after = await eventually(api, bearer(text))

        assert before.status_code == 401, role
        assert (by_oneself.status_code, problem(by_oneself)["reason"]) == (403, "permission_denied")
        assert confirmed.json()["confirmed_at"] is not None
        assert after == reaches


async def eventually(api: Api, headers: dict[str, str]) -> int:
    """Ask until the key is let in, and return what it then gets."""
    for _ in range(50):
        response = await api.client.get("/v1/scopes", headers=headers)
        if response.status_code != 401:
            return response.status_code
    raise AssertionError("the key was never let in")


async def test_an_operator_made_by_one_operator_cannot_confirm_for_them_before_another_agrees(api: Api):
    one = bearer(await api.key(Role.OPERATOR))
    _, accomplice = await made(api, one, role="operator")

    response = await api.client.post("/v1/keys/0123456789abcdef/confirm", headers=bearer(accomplice))

    assert response.status_code == 401


async def test_a_rotation_leaves_two_good_secrets_and_the_next_ends_the_oldest(api: Api):
    scope = await api.scope()
    operator = bearer(await api.key(Role.OPERATOR, scope.scope_id))
    key_id, first = await made(api, operator, role="runtime")

    second = (await api.client.post(f"/v1/keys/{key_id}/rotate", headers=operator)).json()["text"]
    both = [
        (await api.client.put("/v1/runs/r", json={}, headers=bearer(text))).status_code
        for text in (first, second)
    ]
    third = (await api.client.post(f"/v1/keys/{key_id}/rotate", headers=operator)).json()["text"]
    await until_unauthenticated(api, bearer(first))
    left = [
        (await api.client.put("/v1/runs/r", json={}, headers=bearer(text))).status_code
        for text in (second, third)
    ]
    retired = await api.client.post(f"/v1/keys/{key_id}/retire", headers=operator)
    await until_unauthenticated(api, bearer(second))

    assert both == [201, 200]
    assert left == [200, 200]
    assert retired.json()["secrets"] == 1
    assert (await api.client.put("/v1/runs/r", json={}, headers=bearer(third))).status_code == 200


async def test_rotating_a_reviewers_key_would_show_its_secret_to_an_operator(api: Api):
    scope = await api.scope()
    operator = bearer(await api.key(Role.OPERATOR, scope.scope_id))
    reviewer = await api.key(Role.REVIEWER, scope.scope_id, clearances=frozenset({"legal"}))

    response = await api.client.post(f"/v1/keys/{reviewer.split('_')[2]}/rotate", headers=operator)

    assert (response.status_code, problem(response)["reason"]) == (403, "permission_denied")


async def test_a_revocation_takes_at_most_the_refresh(api: Api):
    scope = await api.scope()
    operator = bearer(await api.key(Role.OPERATOR, scope.scope_id))
    key_id, text = await made(api, operator, role="auditor")
    assert (await api.client.get("/v1/scopes", headers=bearer(text))).status_code == 403

    revoked = await api.client.post(f"/v1/keys/{key_id}/revoke", headers=operator)

    assert revoked.json()["revoked_at"] is not None
    await until_unauthenticated(api, bearer(text))
    rotated = await api.client.post(f"/v1/keys/{key_id}/rotate", headers=operator)
    assert problem(rotated)["reason"] == "identity_conflict"


async def test_an_expired_key_is_unauthenticated(api: Api, database_url: str):
    text = await api.key(Role.OPERATOR)
    connection = await asyncpg.connect(database_url)
    await connection.execute("UPDATE api_keys SET expires_at = now() - interval '1 second'")
    await connection.close()

    assert (await api.client.get("/v1/keys", headers=bearer(text))).status_code == 401


async def test_another_scopes_key_is_the_same_as_none(api: Api):
    own, foreign = await api.scope("own"), await api.scope("foreign")
    operator = bearer(await api.key(Role.OPERATOR, own.scope_id))
    runtime = await api.key(Role.RUNTIME, foreign.scope_id)

    of_foreign = await api.client.post(f"/v1/keys/{runtime.split('_')[2]}/revoke", headers=operator)
    of_none = await api.client.post("/v1/keys/0123456789abcdef/revoke", headers=operator)

    assert of_foreign.status_code == of_none.status_code == 404
    assert of_foreign.content == of_none.content


CANNOT_STAND: list[dict[str, object]] = [
    {"role": "runtime", "lifetime": "3"},
    {"role": "runtime", "lifetime": "3000d"},
    {"role": "runtime", "clearances": ["legal"]},
    {"role": "admin"},
    {"role": "runtime", "secret": "mine"},
    {"role": "runtime", "note": "two\nlines"},
    {},
]


async def test_a_key_that_cannot_stand_is_refused(api: Api):
    scope = await api.scope()
    operator = bearer(await api.key(Role.OPERATOR, scope.scope_id))
    for wanted in CANNOT_STAND:
        response = await api.client.post("/v1/keys", json=wanted, headers=operator)

        assert (response.status_code, problem(response)["reason"]) == (400, "malformed_request"), wanted
        assert "mine" not in response.text


async def test_only_an_operators_key_reaches_the_whole_store(api: Api):
    operator = bearer(await api.key(Role.OPERATOR))

    response = await api.client.post("/v1/keys", json={"role": "runtime"}, headers=operator)

    assert response.status_code == 400


async def test_when_a_key_was_used_is_written_apart_from_requests(api: Api):
    book = api.services.keys
    text = await api.key(Role.OPERATOR)

    await book.authenticate(text)
    (before,) = await book.listed(None)
    await book.write_uses()
    (after,) = await book.listed(None)

    assert before.last_used_at is None
    assert after.last_used_at is not None


async def test_while_postgres_is_away_only_a_known_runtimes_key_goes_on(
    api: Api, postgres_url: str, database_url: str
):
    scope = await api.scope()
    runtime, auditor, unseen = [
        await api.key(role, scope.scope_id) for role in (Role.RUNTIME, Role.AUDITOR, Role.RUNTIME)
    ]
    book = api.services.keys
    known = await book.authenticate(runtime)
    await book.authenticate(auditor)

    async with postgres_away(postgres_url, database_url):
        for _ in range(3):
            await until_refresh()
            assert await book.authenticate(runtime) == known
        answers = [await api.client.get("/v1/scopes", headers=bearer(text)) for text in (auditor, unseen)]

    for answer in answers:
        assert answer.status_code == 503
        found = problem(answer)
        assert (found["reason"], found["retryable"]) == ("store_unavailable", True)
        assert answer.headers["retry-after"] == "1"
    assert await book.authenticate(runtime) == known


async def until_refresh() -> None:
    """Let what is remembered grow too old."""
    await asyncio.sleep(0.25)
