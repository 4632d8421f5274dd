"""The operators' desk over HTTP: who may open and do what, in which scope, and what comes of it."""

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from console import action_words
from console.duty_words import DUTIES, ended
from console.policy_words import _EFFECTS, NAMES, changes, flat
from policies.kinds import Role
from policies.reasons import OUTCOMES
from policies.scope_policy import ScopePolicy
from store.errors import Unauthenticated
from store.services.keys import Caller
from store.services.overview import DutyStanding
from store.services.paging import Asked, Reader
from store.services.scopes import Scope
from store.tables.completeness import Day
from store.tables.leases import LeaseRow
from tests.support.api import settings_for
from tests.support.console import Browser, Running, console
from tests.support.duties import execute

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
            review = path == "/desk/scopes/one/review" and operates
            fields = {"document": await policy_text(browser), "version": "1"} if review else {}
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


async def test_a_policy_is_explained_or_refused_by_field_before_it_is_put_in_force(running: Running):
    scope = await running.scope("one")
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    written = '{"sampling": 7, "retention": {"max": "x"}, "odd": 1}'
    wrong = await browser.post("/desk/scopes/one/review", "/session", document=written, version="1")
    assert wrong.status_code == 400
    for name in ("sampling", "retention.max", "odd"):
        assert f"<code>{name}</code>" in wrong.text
    assert escape(written) in wrong.text
    twice = await browser.post(
        "/desk/scopes/one/review", "/session", document='{"share": 1, "share": 1}', version="1"
    )
    assert (twice.status_code, "names something twice" in twice.text) == (400, True)

    document = '{"destroy_after": "1d", "purpose_required": true, "retention": {"max": "400d"}}'
    told = await browser.post("/desk/scopes/one/review", "/session", document=document, version="1")
    for sentence in (
        "cannot be restored",
        "who says no purpose is refused",
        "kept longer than it was promised",
    ):
        assert sentence in told.text
    for way in (">stricter<", ">looser<"):
        assert way in told.text
    assert (await running.services.scopes.get(scope.scope_id)).version == 1
    put = await browser.post("/desk/scopes/one/policy", "/session", document=document, version="1")
    assert put.status_code == 303
    assert (await running.services.scopes.get(scope.scope_id)).policy.purpose_required


async def test_a_form_keeps_what_was_filled_in_beside_what_is_wrong_with_it(running: Running):
    scope = await running.scope("one")
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    fields = {name: text for name, text in flat(ScopePolicy().to_document()).items() if name != "kinds"}
    answer = await browser.post(
        "/desk/scopes/one/review",
        "/session",
        **{
            **fields,
            "sampling": "a lot",
            "retention.default": "soon",
            "kinds": "observable-output",
            "version": "1",
        },
    )
    assert answer.status_code == 400
    for name, said in (("sampling", "a lot"), ("retention.default", "soon")):
        shown = re.search(rf'<input id="f-{name}"[^>]*>', answer.text)
        assert shown
        assert f'value="{said}"' in shown[0]
        assert f'aria-describedby="f-{name}-help f-{name}-fault"' in shown[0]
        assert f'id="f-{name}-fault"' in answer.text
    assert re.findall(r'name="kinds" value="([a-z-]+)" checked', answer.text) == ["observable-output"]


@pytest.mark.parametrize("step", ["review", "policy"])
async def test_a_policy_made_from_one_that_somebody_else_replaced_is_refused_and_kept(
    running: Running, step: str
):
    scope = await running.scope("one")
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    await running.services.scopes.put_policy(scope.scope_id, {"retention": {"default": "5d"}}, "0" * 16)
    mine = '{"sampling": 0.25}'
    stale = await browser.post(f"/desk/scopes/one/{step}", "/session", document=mine, version="1")
    assert stale.status_code == 409
    for said in (
        "Somebody else changed this policy meanwhile",
        "in force <strong>5d</strong>",
        "yours <strong>0.25",
    ):
        assert said in stale.text
    assert 'name="sampling" value="0.25"' in stale.text
    assert 'name="version" value="2"' in stale.text
    now = await running.services.scopes.get(scope.scope_id)
    assert (now.version, now.policy.sampling) == (2, 1.0)


@pytest.mark.parametrize("as_text", [False, True])
async def test_a_policy_that_was_wrong_first_does_not_overwrite_what_somebody_else_changed_meanwhile(
    running: Running, *, as_text: bool
):
    scope = await running.scope("one")
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    flattened = flat(ScopePolicy().to_document())
    kinds = str(flattened.pop("kinds")).split(", ")[0]
    await running.services.scopes.put_policy(scope.scope_id, {"retention": {"default": "5d"}}, "0" * 16)

    def said(sampling: str) -> dict[str, str]:
        text = {"document": json.dumps({"sampling": sampling if sampling == "a lot" else float(sampling)})}
        return text if as_text else {**flattened, "kinds": kinds, "sampling": sampling}

    wrong = await browser.post("/desk/scopes/one/review", "/session", **said("a lot"), version="1")
    assert wrong.status_code == 400
    of_form, of_text = re.findall(r'name="version" value="([0-9]+)"', wrong.text)
    # Beside a wrong text the form shows what is in force.
    assert (of_form, of_text) == ("2" if as_text else "1", "1")
    mended = await browser.post("/desk/scopes/one/review", "/session", **said("0.25"), version=of_text)
    assert mended.status_code == 409
    assert "in force <strong>5d</strong>" in mended.text


async def made(browser: Browser, role: str = "runtime", **fields: str) -> tuple[str, str, str]:
    """Make a key with the form of the page; return its id, its text, and what the form said once."""
    once = re.search(r'name="once" value="([0-9a-f]+)"', (await browser.get("/desk/keys")).text)
    assert once
    answer = await browser.post("/desk/keys", role=role, lifetime="1d", once=once[1], **fields)
    found = re.search(r"ck_[a-z]+_([0-9a-f]{16})_[\w-]+", answer.text)
    assert found, answer.text
    return found[1], found[0], once[1]


async def secrets(browser: Browser, key: str, word: str) -> str:
    found = re.search(
        r'name="secrets" value="([0-9a-f]+)"', (await browser.get(f"/desk/keys/{key}/{word}")).text
    )
    assert found
    return found[1]


async def test_a_keys_text_is_on_one_page_and_the_same_form_makes_no_second_key(running: Running):
    scope = await running.scope("one")
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    key, text, once = await made(browser, note="for <b>")
    listed = (await browser.get("/desk/keys")).text
    assert key in listed
    assert text not in listed
    assert "for &lt;b&gt;" in listed
    before = len(await running.services.keys.listed(scope.scope_id))
    again = await browser.post("/desk/keys", role="runtime", lifetime="1d", once=once)
    assert (again.status_code, key in again.text, text in again.text) == (409, True, False)
    assert len(await running.services.keys.listed(scope.scope_id)) == before


async def test_a_rotation_that_is_sent_again_ends_no_secret(running: Running):
    scope = await running.scope("one")
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    key, first, _ = await made(browser)
    seen = await secrets(browser, key, "rotate")
    rotated = await browser.post(f"/desk/keys/{key}/rotate", secrets=seen)
    second = re.search(r"ck_runtime_[0-9a-f]{16}_[\w-]+", rotated.text)
    assert second
    again = await browser.post(f"/desk/keys/{key}/rotate", secrets=seen)
    assert (again.status_code, "ck_runtime_" in again.text) == (409, False)
    assert "the older one ends now" in again.text
    for text in (first, second[0]):
        assert (await running.services.keys.authenticate(text)).key_id == key
    stale = await browser.post(f"/desk/keys/{key}/retire", secrets=seen)
    assert stale.status_code == 409
    retired = await browser.post(f"/desk/keys/{key}/retire", secrets=await secrets(browser, key, "retire"))
    assert retired.status_code == 303
    assert (await running.services.keys.authenticate(second[0])).key_id == key
    with pytest.raises(Unauthenticated):
        await running.services.keys.authenticate(first)


@pytest.mark.parametrize(
    ("path", "version"),
    [("/desk/sources/crm/revoke", f"{'0' * 10}{'9' * 11}"), ("/desk/scopes/one/policy", "9" * 5_000)],
)
async def test_a_number_that_no_version_has_is_refused_and_no_fault_of_ours(
    running: Running, path: str, version: str
):
    scope = await running.scope("one")
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    await browser.post("/desk/sources", "/session", source="crm")
    answer = await browser.post(path, "/session", version=version, document="{}")
    assert answer.status_code == 400


async def test_all_keys_that_wait_are_counted_however_many_newer_ones_there_are(
    running: Running, database_url: str
):
    scope = await running.scope("one")
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    await made(browser, "reviewer")
    await execute(
        database_url,
        "INSERT INTO api_keys (key_id, scope_id, role, digests, clearances, note, created_by, created_at, confirmed_at,"
        " expires_at) SELECT lpad(to_hex(n), 16, '0'), $1, 'runtime', ARRAY[sha256(int4send(n))], '{}', '',"
        " 'command-line', now() + interval '1 s', now(), now() + interval '1 d' FROM generate_series(1, 1000) AS n",
        scope.scope_id,
    )
    for who in (browser, await running.signed_in(Role.OPERATOR)):
        assert re.search(r'<span class="badge warn">1</span> key\s+waits', (await who.get("/desk")).text)


async def test_where_a_list_of_keys_goes_on_is_told_by_no_other_scopes_key(running: Running):
    one, two = [await running.scope(name) for name in ("one", "two")]
    mine = (await running.key(Role.RUNTIME, one.scope_id)).split("_")[2]
    theirs = (await running.key(Role.RUNTIME, two.scope_id)).split("_")[2]
    browser = await running.signed_in(Role.OPERATOR, one.scope_id)
    own = (await running.key(Role.RUNTIME, one.scope_id)).split("_")[2]
    assert mine in (await browser.get(f"/desk/keys?before={own}")).text
    # As after a key that never was.
    assert mine not in (await browser.get(f"/desk/keys?before={theirs}")).text


async def test_a_second_operator_sees_who_made_a_key_before_confirming_it_and_its_maker_cannot(
    running: Running,
):
    scope = await running.scope("one")
    maker = await running.signed_in(Role.OPERATOR, scope.scope_id)
    key, text, _ = await made(maker, "reviewer", clearances="board", note="for Ada")
    assert "another operator" in (await maker.get("/desk/keys")).text
    own = (await maker.get(f"/desk/keys/{key}/confirm")).text
    assert "an operator with another key confirms it" in own
    assert (await maker.post(f"/desk/keys/{key}/confirm")).status_code == 403
    second = await running.signed_in(Role.OPERATOR, scope.scope_id)
    asked = (await second.get(f"/desk/keys/{key}/confirm")).text
    row = await running.services.keys.one(key, Caller("x", Role.OPERATOR, scope.scope_id, frozenset()))
    for said in (row.created_by, "for Ada", "board", "reads content"):
        assert said in asked
    assert text not in asked
    assert (await second.post(f"/desk/keys/{key}/confirm")).status_code == 303
    assert (await running.services.keys.authenticate(text)).role is Role.REVIEWER


@pytest.mark.parametrize(
    ("path", "fields", "field"),
    [
        ("/desk/keys", {"role": "auditor", "lifetime": "soon", "note": "for Ada", "once": "0"}, "lifetime"),
        ("/desk/keys", {"role": "auditor", "lifetime": "1d", "clearances": "board", "once": "0"}, "clearances"),
        ("/desk/sources", {"source": "a b", "audience": "hr"}, "source"),
        ("/desk/sources", {"source": "crm", "audience": "§"}, "audience"),
        ("/desk/holds", {"on": "run", "name": "nowhere", "reason": "case 7"}, "name"),
        ("/desk/holds", {"on": "part", "name": "nowhere", "reason": "case 7"}, "name"),
        ("/desk/holds", {"on": "scope", "name": "", "reason": ""}, "reason"),
        ("/desk/holds", {"on": "scope", "name": "a-run", "reason": "case 7"}, "name"),
        ("/desk/erasures/review", {"target": "part", "name": "7"}, "name"),
        ("/desk/erasures/review", {"target": "run", "name": "nowhere"}, "name"),
        ("/desk/erasures/review", {"target": "source", "name": "nowhere"}, "name"),
        ("/desk/erasures", {"target": "subject", "name": "nobody"}, "name"),
        ("/desk/erasures/review", {"target": "waiting", "name": "r", "exchange": "x x", "attempt": "1"}, "exchange"),
    ],
)  # fmt: skip
async def test_what_is_wrong_with_a_form_is_said_at_its_field_and_nothing_typed_is_lost(
    running: Running, path: str, fields: dict[str, str], field: str
):
    scope = await running.scope("one")
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    before = await recorded(running, scope)
    answer = await browser.post(path, "/session", **fields)
    assert answer.status_code in {400, 404}
    assert "Nothing was done" in answer.text
    assert f'id="f-{field}-fault"' in answer.text
    for name, said in fields.items():
        assert not said or name == "once" or f'value="{escape(said)}"' in answer.text, name
    assert await recorded(running, scope) == before


async def recorded(running: Running, scope: Scope) -> list[tuple[str, str | None]]:
    """Return what is recorded of operators in a scope, oldest first."""
    reader = Reader(scope.scope_id, "0" * 16, Role.AUDITOR, frozenset())
    page = await running.services.actions.page(reader, Asked(limit=100))
    return [(each.action, each.purpose) for each in reversed(page.items)]


async def test_everything_that_is_done_at_the_desk_is_recorded_with_its_purpose_and_shown(running: Running):
    one = await running.scope("one")
    browser = await running.signed_in(Role.OPERATOR, one.scope_id)
    second = await running.signed_in(Role.OPERATOR, one.scope_id)
    auditor = await running.signed_in(Role.AUDITOR, one.scope_id)
    for each in (browser, second):
        await each.post("/session/purpose", "/session", purpose="ticket 7")
    before = len(await recorded(running, one))
    await browser.post("/desk/scopes/one/policy", document='{"sampling": 0.5}', version="1")
    key, _, _ = await made(browser, "reviewer")
    await second.post(f"/desk/keys/{key}/confirm")
    key, _, _ = await made(browser)
    await browser.post(f"/desk/keys/{key}/rotate", secrets=await secrets(browser, key, "rotate"))
    await browser.post(f"/desk/keys/{key}/retire", secrets=await secrets(browser, key, "retire"))
    await browser.post(f"/desk/keys/{key}/revoke")
    await browser.post("/desk/sources", source="crm")
    await browser.post("/desk/sources/crm/revoke")
    await browser.post("/desk/sources/crm/restore")
    await browser.post("/desk/holds", on="scope", reason="a case")
    hold = re.findall(r"/desk/holds/([0-9a-f-]{36})/release", (await browser.get("/desk/holds")).text)[0]
    await browser.post(f"/desk/holds/{hold}/release")
    await browser.post("/desk/erasures", target="source", name="crm")
    done = [
        "policy_changed", "key_created", "key_confirmed", "key_created", "key_rotated", "secret_retired",
        "key_revoked", "source_version_added", "source_revoked", "source_restored", "hold_placed", "hold_released",
        "erasure_asked",
    ]  # fmt: skip
    assert (await recorded(running, one))[before:] == [(each, "ticket 7") for each in done]
    for watcher in (browser, auditor):
        shown = (await watcher.get("/desk/actions")).text
        for action in done:
            assert f"{action_words.ACTIONS[action]}<br>" in shown
        assert shown.count('"Purpose">ticket 7<') == len(done)
        # As the forms take it, so that it can be looked for.
        assert hold in shown

    whole = await running.signed_in(Role.OPERATOR)
    await whole.post("/desk/scopes", "/session", name="two")
    two = await running.services.scopes.by_name("two")
    assert await recorded(running, two) == [("scope_created", None)]


async def test_a_source_whose_erasure_was_asked_for_is_offered_nothing_that_cannot_work(running: Running):
    scope = await running.scope("one")
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    await browser.post("/desk/sources", "/session", source="crm")
    await browser.post("/desk/sources", "/session", source="crm", earlier="withdrawn")
    await browser.post("/desk/erasures", "/session", target="source", name="crm")
    shown = (await browser.get("/desk/sources/crm")).text
    assert "closed for good" in shown
    assert "/restore" not in shown
    assert "/revoke" not in shown
    assert ">erased<" in (await browser.get("/desk/sources")).text
    late = await browser.post("/desk/sources/crm/restore", "/session")
    assert (late.status_code, "it cannot be restored" in late.text) == (409, True)


async def test_a_source_is_closed_and_opened_again_and_a_hold_placed_and_released(running: Running):
    scope = await running.scope("one")
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    await browser.post("/desk/sources", "/session", source="crm", audience="hr, legal")
    await browser.post("/desk/sources/crm/revoke", "/session")
    shown = (await browser.get("/desk/sources/crm")).text
    assert "revoked" in shown
    assert "destroyed from" in shown
    await browser.post("/desk/sources/crm/restore", "/session")
    assert re.findall(r'"tag">(\w+)<', (await browser.get("/desk/sources/crm")).text) == ["hr", "legal"]
    await browser.post("/desk/holds", "/session", on="scope", reason="a case")
    hold = re.findall(r"/desk/holds/([0-9a-f-]{36})/release", (await browser.get("/desk/holds")).text)[0]
    assert (await browser.get(f"/desk/holds/{hold}/release")).status_code == 200
    await browser.post(f"/desk/holds/{hold}/release", "/session")
    assert "keeps until" in (await browser.get("/desk/holds")).text
    review = await browser.post("/desk/erasures/review", "/session", target="source", name="crm")
    assert "Nothing brings it back" in review.text
    erased = await browser.post("/desk/erasures", "/session", target="source", name="crm")
    followed = await browser.get(erased.headers["location"])
    assert "readers are refused since" in followed.text
    piece = await browser.client.get(erased.headers["location"], headers={"HX-Request": "true"})
    assert piece.text.startswith('<div id="erasure-state"')


async def test_every_duty_has_its_words(running: Running):
    assert {each.duty for each in await running.services.overview.duties()} | {"canary"} == set(DUTIES)


@pytest.mark.parametrize(
    ("said", "word", "level", "what"),
    [
        ("ok", "done", "good", []),
        ("ok made=73 held_over=1", "done", "good", ["made 73", "held over 1"]),
        ("failed: store_unavailable", "failed", "bad", ["store_unavailable"]),
        ("failed: lease lost", "failed", "bad", ["lease lost"]),
        ("skipped: locked", "skipped: locked", "warn", []),
        ("never", "never ran", "warn", []),
    ],
)
def test_how_a_duty_ended_is_read_from_what_its_lease_keeps(
    said: str, word: str, level: str, what: list[str]
):
    at = datetime(2026, 11, 30, tzinfo=UTC)
    lease = LeaseRow(
        "purge", held=False, last_started=at, last_finished=at, last_success=at, last_outcome=said, now=at
    )
    found = ended(DutyStanding("purge", 60, lease))
    assert (found.word, found.level, list(found.what)) == (word, level, what)


async def test_what_is_missing_is_said_in_words(running: Running):
    """By a scope's day, as the desk's table has it."""
    scope = await running.scope("one")
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    day = Day("one", date(2026, 11, 30), 1, 1, 0, 1, 2, {"part_too_large": 2})
    running.services.overview.completeness = answering([day])  # type: ignore[method-assign]
    for path in ("/desk/completeness", "/desk"):
        shown = (await browser.get(path)).text
        assert re.search(r"2 . (<span[^>]*>)?Part too large", shown), path
        assert "part_too_large" not in shown


async def test_completeness_of_a_store_with_many_scopes_is_a_page_that_can_be_read_and_says_what_it_leaves_out(
    running: Running,
):
    scope = await running.scope("s-7")
    reasons = {reason.value: 5 for reason in sorted(OUTCOMES)}
    days = [
        Day(f"s-{number}", date(2026, 11, 30 - ago), 1, 1, 0, 1, number, reasons)
        for number in range(300)
        for ago in range(7)
    ]
    running.services.overview.completeness = answering(days)  # type: ignore[method-assign]
    whole = await (await running.signed_in(Role.OPERATOR)).get("/desk/completeness")
    assert len(whole.content) <= 150 << 10
    assert f"100 of {len(days)} rows" in whole.text
    # The newest day, and on it what lacks most.
    assert re.findall(r'data-label="Scope">([^<]+)<', whole.text) == [
        f"s-{number}" for number in range(299, 199, -1)
    ]
    assert f"and {len(reasons) - 3} more" in whole.text
    assert f"{sum(each.missing for each in days)} missing. The table" in whole.text

    running.services.overview.completeness = answering(days[:7])  # type: ignore[method-assign]
    one = await (await running.signed_in(Role.OPERATOR, scope.scope_id)).get("/desk/completeness")
    assert len(re.findall("5 . <span", one.text)) == 7 * len(reasons)
    assert "more</td>" not in one.text


def answering(days: list[Day]) -> Any:
    async def completeness(_: object, __: int) -> tuple[list[Day], datetime]:
        return days, datetime(2026, 11, 30, tzinfo=UTC)

    return completeness


def test_every_field_of_a_policy_says_for_whom_it_changes():
    assert set(_EFFECTS) == set(NAMES) == set(flat(ScopePolicy().to_document()))
    assert changes(ScopePolicy(), ScopePolicy()) == []


def test_what_finds_no_room_becomes_a_gap_where_it_is_a_part_and_else_is_told_again():
    """A refused part leaves a gap; of what else is refused its runtime knows, and keeps it."""
    told = changes(ScopePolicy(), ScopePolicy.from_document({"waiting": {"run_notes": 1, "run_parts": 1}}))
    assert {each.field: "becomes a gap" in each.effect.onward for each in told} == {
        "waiting.run_parts": True,
        "waiting.run_notes": False,
    }


async def test_an_operator_of_the_whole_store_opens_every_page_or_is_led_to_choose_a_scope(running: Running):
    scope = await running.scope("one")
    theirs = (await running.key(Role.REVIEWER, scope.scope_id)).split("_")[2]
    browser = await running.signed_in(Role.OPERATOR)
    for path in PAGES:
        answer = await browser.get(path)
        if path in {"/desk/sources", "/desk/holds", "/desk/erasures"}:
            assert (answer.status_code, answer.headers["location"]) == (303, "/desk/scopes?choose=1"), path
        else:
            assert answer.status_code == 200, path
    listed = (await browser.get("/desk/keys")).text
    assert theirs in listed
    assert '"Scope">one<' in listed
