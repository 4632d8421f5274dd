"""The operators' desk over HTTP: who may open and do what, in which scope, and what comes of it."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from console.duty_words import DUTIES
from console.policy_words import _FOR_WHOM, changes, flat
from policies.kinds import Role
from policies.scope_policy import ScopePolicy
from tests.support.api import settings_for
from tests.support.console import Browser, Running, console

ID = "00000000-0000-7000-8000-000000000000"
KEY = "0" * 16
PAGES = (
    "/desk", "/desk/scopes", "/desk/scopes/one", "/desk/keys", "/desk/sources", "/desk/holds", "/desk/erasures",
    "/desk/duties", "/desk/completeness", "/desk/queue", "/desk/actions",
)  # fmt: skip
# What a form of an operator meets where there is nothing of that name: never more than that.
ACTIONS = {
    "/desk/scopes/one/review": 200,
    "/desk/scopes/one/policy": 400,
    "/desk/scopes": 403,
    "/desk/leave": 403,
    "/desk/keys": 400,
    f"/desk/keys/{KEY}/confirm": 404,
    f"/desk/keys/{KEY}/rotate": 404,
    f"/desk/keys/{KEY}/retire": 404,
    f"/desk/keys/{KEY}/revoke": 404,
    "/desk/sources": 400,
    "/desk/sources/none/revoke": 404,
    "/desk/sources/none/restore": 404,
    "/desk/holds": 400,
    f"/desk/holds/{ID}/release": 404,
    "/desk/erasures/review": 400,
    "/desk/erasures": 400,
}


@pytest.fixture
async def running(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Running]:
    async with console(settings_for(database_url, redis_url, keys_dir)) as opened:
        yield opened


async def policy_text(browser: Browser) -> str:
    text = (await browser.get("/desk/scopes/one")).text
    found = re.search(r"<textarea[^>]*>(.*?)</textarea>", text, re.DOTALL)
    assert found, text
    return found[1].replace("&#34;", '"')


async def test_only_operators_open_the_desk_and_act_on_it(running: Running):
    scope = await running.scope("one")
    for role in (Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR, Role.OPERATOR):
        browser = await running.signed_in(role, scope.scope_id)
        operates = role is Role.OPERATOR
        for path in PAGES:
            allowed = operates or (role is Role.AUDITOR and path == "/desk/actions")
            assert (await browser.get(path)).status_code == (200 if allowed else 403), (role, path)
        for path, status in ACTIONS.items():
            fields = {"document": await policy_text(browser)} if path.endswith("review") and operates else {}
            answer = await browser.post(path, "/session", **fields)
            assert answer.status_code == (status if operates else 403), (role, path, answer.text)


async def test_another_scopes_things_are_the_same_as_none(running: Running):
    one, two = await running.scope("one"), await running.scope("two")
    theirs = await running.signed_in(Role.OPERATOR, two.scope_id)
    await theirs.post("/desk/sources", "/session", source="theirs")
    await theirs.post("/desk/holds", "/session", on="scope", reason="ours")
    hold = re.findall(r"/desk/holds/([0-9a-f-]{36})/release", (await theirs.get("/desk/holds")).text)[0]
    key = (await running.key(Role.RUNTIME, two.scope_id)).split("_")[2]
    mine = await running.signed_in(Role.OPERATOR, one.scope_id)
    for path, none in (
        ("/desk/scopes/two", "/desk/scopes/three"),
        ("/desk/sources/theirs", "/desk/sources/none"),
        (f"/desk/holds/{hold}/release", f"/desk/holds/{ID}/release"),
        (f"/desk/keys/{key}/revoke", f"/desk/keys/{KEY}/revoke"),
    ):
        answers = [await mine.get(path), await mine.get(none)]
        assert [answer.status_code for answer in answers] == [404, 404], path
        assert answers[0].text == answers[1].text
    for path in (f"/desk/holds/{hold}/release", f"/desk/keys/{key}/revoke", "/desk/sources/theirs/revoke"):
        assert (await mine.post(path, "/session")).status_code == 404, path
    assert "theirs" not in (await mine.get("/desk/sources")).text
    assert key not in (await mine.get("/desk/keys")).text


async def test_a_policy_is_looked_at_before_it_is_put_in_force(running: Running):
    scope = await running.scope("one")
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    wrong = await browser.post(
        "/desk/scopes/one/review", "/session", document='{"sampling": 7, "retention": {"max": "x"}, "odd": 1}'
    )
    assert wrong.status_code == 400
    for name in ("sampling:", "retention.max:", "odd:"):
        assert name in wrong.text
    twice = await browser.post("/desk/scopes/one/review", "/session", document='{"share": 1, "share": 1}')
    assert (twice.status_code, "names something twice" in twice.text) == (400, True)

    document = '{"destroy_after": "1d", "purpose_required": true}'
    told = await browser.post("/desk/scopes/one/review", "/session", document=document)
    assert "cannot be restored" in told.text
    assert "who says no purpose is refused" in told.text
    assert (await running.services.scopes.get(scope.scope_id)).version == 1
    put = await browser.post("/desk/scopes/one/policy", "/session", document=document, version="1")
    late = await browser.post("/desk/scopes/one/policy", "/session", document="{}", version="1")
    assert (put.status_code, late.status_code) == (303, 409)
    assert (await running.services.scopes.get(scope.scope_id)).policy.purpose_required


async def test_a_keys_text_is_on_one_page_and_what_is_done_is_recorded_with_its_purpose(running: Running):
    scope = await running.scope("one")
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    await browser.post("/session/purpose", "/session", purpose="ticket 7")
    made = await browser.post("/desk/keys", "/session", role="runtime", lifetime="1d", note="for <b>")
    found = re.search(r"ck_runtime_([0-9a-f]{16})_[\w-]+", made.text)
    assert found
    listed = (await browser.get("/desk/keys")).text
    assert found[1] in listed
    assert found[0] not in listed
    assert "for &lt;b&gt;" in listed
    asked = await browser.get(f"/desk/keys/{found[1]}/revoke")
    assert (await browser.post(f"/desk/keys/{found[1]}/revoke", "/session")).status_code == 303
    assert "Revoke it" in asked.text
    actions = (await browser.get("/desk/actions")).text
    assert "key_revoked" in actions
    assert "ticket 7" in actions


async def test_a_source_is_closed_and_opened_again_and_a_hold_placed_and_released(running: Running):
    scope = await running.scope("one")
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    await browser.post("/desk/sources", "/session", source="crm", audience="hr, legal")
    await browser.post("/desk/sources/crm/revoke", "/session")
    shown = (await browser.get("/desk/sources/crm")).text
    assert "revoked" in shown
    assert "destroyed from" in shown
    await browser.post("/desk/sources/crm/restore", "/session")
    assert "hr, legal" in (await browser.get("/desk/sources/crm")).text
    await browser.post("/desk/holds", "/session", on="scope", reason="a case")
    hold = re.findall(r"/desk/holds/([0-9a-f-]{36})/release", (await browser.get("/desk/holds")).text)[0]
    assert (await browser.get(f"/desk/holds/{hold}/release")).status_code == 200
    await browser.post(f"/desk/holds/{hold}/release", "/session")
    assert "keeps until" in (await browser.get("/desk/holds")).text
    review = await browser.post("/desk/erasures/review", "/session", target="source", name="crm")
    assert "Nothing brings it back" in review.text
    erased = await browser.post("/desk/erasures", "/session", target="source", name="crm")
    assert "readers are refused since" in (await browser.get(erased.headers["location"])).text


async def test_every_duty_has_its_words(running: Running):
    assert {each.duty for each in await running.services.overview.duties()} | {"canary"} == set(DUTIES)


def test_every_field_of_a_policy_says_for_whom_it_changes():
    assert set(_FOR_WHOM) == set(flat(ScopePolicy().to_document()))
    assert changes(ScopePolicy(), ScopePolicy()) == []
