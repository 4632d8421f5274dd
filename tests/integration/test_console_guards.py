"""Every route of the console, from its own list: who is let in, what forms must carry, what answers have."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from html import unescape
from pathlib import Path

import asyncpg
import httpx
import pytest
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute

from console.app import ROUTERS
from console.around import POLICY
from console.assets import ASSETS, address
from console.cookies import form_token
from console.guards import before_signing_in, everybody, reads
from console.navigation import DESK, PLACES
from policies.kinds import Role
from store.services.alarms import Alarm, Raised
from tests.support.api import settings_for
from tests.support.console import Browser, Running, console
from tests.support.console import form_token as token_of
from tests.support.duties import execute

FOR_ALL = {"/static/{name:str}", "/livez", "/metrics"}
BEFORE = {("GET", "/sign-in"), ("POST", "/sign-in")}


def routes() -> Iterator[tuple[str, str, HTTPRouteHandler]]:
    """Every method and path that somebody wrote a handler for."""
    for router in ROUTERS:
        for route in router.routes:
            assert isinstance(route, HTTPRoute)
            for handler in route.route_handlers:
                for method in handler.http_methods - {"OPTIONS", "HEAD"}:
                    yield str(method), route.path, handler


def filled(path: str) -> str:
    """A path with something in each of its places."""
    kinds = {"uuid": "00000000-0000-7000-8000-000000000000", "int": "1"}
    return re.sub(r"\{\w+:(\w+)\}", lambda found: kinds.get(found[1], "x"), path)


ROUTES = list(routes())
PAGES = [path for method, path, _ in ROUTES if method == "GET" and path not in FOR_ALL and path != "/sign-in"]
FORMS = [path for method, path, _ in ROUTES if method == "POST" and path != "/sign-in"]


@pytest.fixture
async def running(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Running]:
    async with console(settings_for(database_url, redis_url, keys_dir)) as opened:
        yield opened


def test_every_route_has_a_guard_of_ours_and_only_few_are_for_everybody():
    a_session = reads().__qualname__
    for method, path, handler in ROUTES:
        guards = handler.resolve_guards()
        assert method in {"GET", "POST"}, path
        if path in FOR_ALL:
            assert guards == [everybody], path
        elif (method, path) in BEFORE:
            assert guards == [before_signing_in], path
        else:
            assert [guard.__qualname__ for guard in guards] == [a_session], path


async def test_without_a_session_every_page_leads_to_the_sign_in_and_every_form_is_refused(running: Running):
    browser = running.browser()
    browser.client.cookies.set("custody-session", "A" * 43)
    for path in PAGES:
        answer = await browser.get(filled(path))
        assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, "/sign-in"), path
        piece = await browser.client.get(filled(path), headers={"HX-Request": "true"})
        assert (piece.status_code, piece.headers["hx-redirect"]) == (401, "/sign-in"), path
    for path in FORMS:
        answer = await browser.client.post(filled(path), data={"csrf": form_token("A" * 43)})
        assert answer.status_code == 401, path


async def test_every_form_is_refused_without_the_token_of_its_own_session(running: Running):
    scope = await running.scope()
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    other = await running.signed_in(Role.OPERATOR, scope.scope_id)
    mine, foreign = [token_of((await each.get("/session")).text) for each in (browser, other)]
    sent: list[dict[str, object]] = [
        {},
        {"data": {"csrf": ""}},
        {"data": {"csrf": foreign}},
        {"data": {"csrf": [mine, foreign]}},
        {"data": {"csrf": mine}, "headers": {"X-CSRF-Token": foreign}},
        {"data": {"csrf": mine}, "headers": {"Sec-Fetch-Site": "cross-site"}},
        {"data": {"csrf": mine}, "headers": {"Sec-Fetch-Site": "same-site"}},
        {"headers": {"X-CSRF-Token": foreign}},
        {"json": {"csrf": mine}},
        {"params": {"csrf": mine}},
    ]
    for path in FORMS:
        for said in sent:
            answer = await browser.client.post(filled(path), **said)  # type: ignore[arg-type] # as written above
            assert (answer.status_code, "form" in answer.text) == (403, True), (path, said)
    signing_in = await running.browser().client.post("/sign-in", data={"key": "x", "csrf": form_token("")})
    assert signing_in.status_code == 403
    # htmx sends both.
    both = await browser.client.post("/sign-out", data={"csrf": mine}, headers={"X-CSRF-Token": mine})
    assert both.status_code == 303
    assert (await other.client.post("/sign-out", headers={"X-CSRF-Token": foreign})).status_code == 303


async def test_every_answer_has_the_headers_that_none_may_lack(running: Running):
    scope = await running.scope()
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    answers = [await browser.get(filled(path)) for path in PAGES]
    answers += [
        await browser.get(path) for path in ("/sign-in", "/nowhere", "/static/nothing.js", "/runs?scope=%00")
    ]
    answers += [await browser.client.request("DELETE", "/runs"), await browser.client.post("/sign-out")]
    for answer in answers:
        headers = answer.headers
        assert headers["content-security-policy"].startswith("default-src 'none'"), answer.url
        assert headers["cache-control"] == "no-store", answer.url
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "unsafe" not in POLICY
    for word in (
        "script-src 'self'",
        "style-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ):
        assert word in POLICY


async def test_no_page_has_a_script_or_style_of_its_own_or_an_outside_address(running: Running):
    scope = await running.scope()
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    for path in (*PAGES, "/sign-in", "/nowhere"):
        text = (await browser.get(filled(path))).text
        assert not re.search(
            r"<style|\sstyle=|\son\w+=|javascript:|<script(?![^>]*\ssrc=\"/static/)", text
        ), path
        addresses = re.findall(r'(?:src|href|action|hx-get|hx-post)="([^"]+)"', text)
        assert not [each for each in addresses if not each.startswith(("/", "#", "?"))], path
        if text:
            assert '<html lang="en">' in text, path
            assert re.search(r"<title>[^<]+ · Custody</title>", text), path
            assert text.count("<main") == text.count("<h1") == 1, path


async def test_files_are_kept_only_under_the_name_of_their_bytes(running: Running):
    browser = running.browser()
    for name, asset in ASSETS.items():
        kept = await browser.get(address(name))
        assert (kept.status_code, kept.content) == (200, asset.content)
        assert "immutable" in kept.headers["cache-control"]
        assert kept.headers["content-type"] in (asset.media_type, f"{asset.media_type}; charset=utf-8")
        for other in (f"/static/{name}", f"/static/{name}?v=0"):
            assert (await browser.get(other)).headers["cache-control"] == "no-store"
    for path in ("/static/..%2Fapp.py", "/static/%2E%2E/app.py", "/static/nothing.css"):
        assert (await browser.get(path)).status_code == 404


async def opens(browser: Browser, path: str) -> bool:
    """Whether an entry of the navigation lets a browser in; a page that is not there lets nobody in."""
    return (await browser.get(path)).status_code != httpx.codes.FORBIDDEN


async def test_a_role_is_shown_what_it_may_open_and_may_open_what_it_is_shown(running: Running):
    scope = await running.scope()
    there = set(PAGES)
    for role in (Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR, Role.OPERATOR):
        browser = await running.signed_in(role, scope.scope_id)
        text = (await browser.get("/session")).text
        for place in PLACES:
            shown = f'href="{place.path}"' in text
            assert shown == (role in place.roles), (role, place)
            if place.path in there:
                there_too = any(role in each.roles for each in DESK if each.path == place.path)
                assert (shown or there_too) == await opens(browser, place.path), (role, place)
        for place in DESK:
            if place.path in there:
                assert await opens(browser, place.path) == (role in place.roles), (role, place)


async def test_it_lives_and_counts_without_naming_anybody(running: Running):
    scope = await running.scope("secret-name")
    browser = await running.signed_in(Role.REVIEWER, scope.scope_id)
    await browser.get("/runs?label=private")
    assert (await browser.get("/livez")).text == "alive\n"
    counted = (await browser.get("/metrics")).text
    assert re.search(r'custody_request_seconds_count\{method="GET",status="2xx"\} [1-9]', counted), counted
    assert not any(word in counted for word in ("private", "secret-name", str(scope.scope_id)))


async def test_a_store_wide_operator_chooses_a_scope_and_others_have_their_own(running: Running):
    one, two = await running.scope("one"), await running.scope("two")
    wide = await running.signed_in(Role.OPERATOR)
    asked = await wide.get("/runs")
    chosen = await wide.get("/runs", scope="two")
    later = await wide.get("/runs")
    none = await wide.get("/runs", scope="three")
    twice = await wide.client.get("/runs?scope=one&scope=two")

    assert (asked.status_code, asked.headers["location"]) == (303, "/desk/scopes?choose=1")
    for answer in (chosen, later):
        assert (answer.status_code, two.name in answer.text) == (200, True)
    assert (none.status_code, twice.status_code) == (404, 400)

    bound = await running.signed_in(Role.OPERATOR, one.scope_id)
    same, other, nowhere = [await bound.get("/runs", scope=name) for name in ("one", "two", "three")]
    assert same.status_code == 200
    # Whether another scope exists cannot be told.
    assert (other.status_code, other.text) == (400, nowhere.text.replace("three", "two"))


async def test_a_form_acts_in_the_scope_of_its_page_whatever_another_page_chose_since(
    running: Running, database_url: str
):
    one, _ = await running.scope("one"), await running.scope("two")
    wide = await running.signed_in(Role.OPERATOR)
    page = (await wide.get("/desk/sources", scope="one")).text
    await wide.get("/desk/sources", scope="two")
    assert 'name="shown_scope" value="one"' in page

    async def sent(shown: object, **fields: str) -> httpx.Response:
        said = {"csrf": token_of(page), "shown_scope": shown, "source": "doc", **fields}
        return await wide.client.post("/desk/sources", data=said)

    added = await sent("one")
    led = await wide.get(added.headers["location"].partition("?")[0])
    refused = [await sent(shown) for shown in ("three", ["one", "two"])]

    assert (added.status_code, led.status_code) == (303, 200)
    assert [answer.status_code for answer in refused] == [404, 400]
    connection = await asyncpg.connect(database_url)
    scopes = [row["scope_id"] for row in await connection.fetch("SELECT scope_id FROM sources")]
    await connection.close()
    assert scopes == [one.scope_id]


async def test_a_piece_of_a_page_is_of_that_pages_scope_and_chooses_none(running: Running):
    await running.scope("one")
    await running.scope("two")
    wide = await running.signed_in(Role.OPERATOR)
    await wide.post("/session/purpose", "/session", purpose="a look")
    await wide.post("/desk/sources", "/desk/sources?scope=one", source="doc")
    asked = await wide.post("/desk/erasures", "/desk/erasures?scope=one", target="source", name="doc")
    erasure = asked.headers["location"].partition("?")[0]
    await wide.get("/desk", scope="two")

    async def piece(*shown: str) -> httpx.Response:
        headers = [("HX-Request", "true"), *(("X-Shown-Scope", each) for each in shown)]
        return await wide.client.get(erasure, headers=headers)

    of_one, of_two = await piece("one"), await piece("two")
    neither = [await piece("three"), await piece("one", "two"), await piece("")]
    after = await wide.get("/runs")

    assert (of_one.status_code, 'id="erasure-state"' in of_one.text) == (200, True)
    assert of_two.status_code == 404
    assert [answer.status_code for answer in neither] == [404, 400, 303]
    assert 'title="two"' in after.text


async def test_what_looks_again_by_itself_goes_on_after_an_answer_that_is_none(running: Running):
    page = (await running.browser().get("/sign-in")).text
    said = json.loads(unescape(re.search(r"name=\"htmx-config\" content='([^']+)'", page)[1]))  # type: ignore[index] # else it fails
    swapped = {each["code"]: each["swap"] for each in said["responseHandling"]}
    assert swapped == {"204": False, "[23]..": True, "[45]..": False}


@pytest.mark.parametrize(
    ("method", "path", "status", "name"),
    [
        ("GET", "/nowhere", 404, "Not found"),
        ("GET", "/runs?cursor=nonsense", 400, "Cursor invalid"),
        ("GET", "/session?scope=.", 400, "Malformed request"),
        ("DELETE", "/runs", 405, "Malformed request"),
    ],
)
async def test_what_goes_wrong_is_a_page_with_the_apis_status_and_words(
    running: Running, method: str, path: str, status: int, name: str
):
    scope = await running.scope()
    browser = await running.signed_in(Role.REVIEWER, scope.scope_id)
    answer = await browser.client.request(method, path)
    assert (answer.status_code, f"<h1>{name}</h1>" in answer.text) == (status, True)
    piece = await browser.client.request(method, path, headers={"HX-Request": "true"})
    assert (piece.status_code, "<html" in piece.text, name in piece.text) == (status, False, True)


async def test_a_stop_is_told_to_everybody_and_an_alarm_to_operators(
    running: Running, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    scope = await running.scope()
    await execute(database_url, "UPDATE log_state SET stop = 'forked', stopped_at = '2026-11-29T10:00Z'")
    reviewer = await running.signed_in(Role.REVIEWER, scope.scope_id)
    closed = await reviewer.get("/runs")
    assert (closed.status_code, "Reads are closed: the log is forked." in closed.text) == (503, True)
    assert "<h1>Reads closed</h1>" in closed.text
    assert "2026-11-29 10:00:00 UTC" in closed.text

    async def late(_: None) -> list[Raised]:
        return [Raised(Alarm.DUTIES_LATE, None, ["purge", "expiry"])]

    monkeypatch.setattr(running.services.alarms._known, "_read", late)
    running.services.alarms._known.clear()
    operator = await running.signed_in(Role.OPERATOR, scope.scope_id)
    assert "purge, expiry" in (await operator.get("/session")).text
    assert "purge, expiry" not in (await reviewer.get("/session")).text


async def test_with_postgres_away_it_says_so_and_shows_nothing(running: Running, database_url: str):
    scope = await running.scope()
    browser = await running.signed_in(Role.REVIEWER, scope.scope_id)
    await running.services.database.close()
    answer = await browser.get("/runs")
    assert (answer.status_code, "<h1>Store unavailable</h1>" in answer.text) == (503, True)
    assert "an outage, not a refusal" in answer.text
