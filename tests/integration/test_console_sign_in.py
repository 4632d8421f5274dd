"""Signing in to the console and out again: sessions, their ends, failures that are throttled, and a proxy's word."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import httpx
import pytest

from console.rendering import redirect
from console.sign_in import local
from policies.kinds import Role
from store.services.keys import KEY_TEXT
from tests.support.api import settings_for
from tests.support.console import Browser, Running, console, form_token

SHARED = "s" * 40


@pytest.fixture
async def running(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Running]:
    settings = settings_for(database_url, redis_url, keys_dir, key_refresh="100ms")
    async with console(settings) as opened:
        yield opened


async def execute(database_url: str, sql: str, *arguments: object) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(database_url)
    try:
        return list(await connection.fetch(sql, *arguments))
    finally:
        await connection.close()


async def inside(browser: Browser) -> bool:
    answer = await browser.get("/session")
    assert answer.status_code in (200, 303)
    return answer.status_code == httpx.codes.OK


async def test_a_key_signs_in_and_out(running: Running, database_url: str):
    scope = await running.scope()
    text = await running.key(Role.REVIEWER, scope.scope_id)
    browser = running.browser()

    before = await browser.get("/runs?label=a")
    entered = await browser.sign_in(text, "/runs?label=a")
    shown = await browser.get("/runs")
    rows = await execute(database_url, "SELECT digest, key_id, secret FROM console_sessions")
    left = await browser.post("/sign-out")
    after = await browser.get("/runs")

    assert (before.status_code, before.headers["location"]) == (303, "/sign-in?next=%2Fruns%3Flabel%3Da")
    assert (entered.status_code, entered.headers["location"]) == (303, "/runs?label=a")
    assert (shown.status_code, "No run was declared" in shown.text) == (200, True)
    assert (left.status_code, left.headers["location"]) == (303, "/sign-in?out=1")
    assert after.status_code == 303
    assert await execute(database_url, "SELECT 1 FROM console_sessions") == []
    cookie = entered.headers["set-cookie"]
    name, value = cookie.partition(";")[0].split("=")
    assert name == "custody-session"
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert "Secure" not in cookie
    # What the browser holds is nowhere in the database, nor is the key.
    assert [row["digest"] for row in rows] == [hashlib.sha256(value.encode()).digest()]
    assert [row["secret"] for row in rows] == [hashlib.sha256(text.rpartition("_")[2].encode()).digest()]


async def test_behind_tls_the_cookies_are_secure_and_this_hosts_alone(
    database_url: str, redis_url: str, keys_dir: Path
):
    settings = settings_for(
        database_url, redis_url, keys_dir, console_public_url="https://console.example.org"
    )
    async with console(settings) as running:
        scope = await running.scope()
        browser = running.browser()
        browser.client.base_url = httpx.URL("https://console.test")
        given = (await browser.get("/sign-in")).headers["set-cookie"]
        entered = await browser.sign_in(await running.key(Role.AUDITOR, scope.scope_id))

    for cookie, name in (
        (given, "__Host-custody-before="),
        (entered.headers["set-cookie"], "__Host-custody-session="),
    ):
        assert cookie.startswith(name)
        assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"} == {
            part.strip() for part in cookie.split(";")[1:]
        }


async def test_every_role_but_a_runtime_enters(running: Running):
    scope = await running.scope()
    for role in (Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR, Role.OPERATOR):
        browser = await running.signed_in(role, scope.scope_id)
        shown = (await browser.get("/session")).text
        assert role.value in shown
        assert scope.name in shown


async def test_what_is_no_good_is_the_same_answer_whatever_is_wrong_with_it(
    running: Running, database_url: str
):
    scope = await running.scope()
    good = await running.key(Role.REVIEWER, scope.scope_id)
    expired, revoked, unconfirmed = [await running.key(Role.REVIEWER, scope.scope_id) for _ in range(3)]
    for text, change in (
        (expired, "expires_at = now()"),
        (revoked, "revoked_at = now()"),
        (unconfirmed, "confirmed_at = NULL"),
    ):
        sql = f"UPDATE api_keys SET {change} WHERE key_id = $1"  # noqa: S608 - our own words
        await execute(database_url, sql, text.split("_")[2])
    wrong = [
        await running.key(Role.RUNTIME, scope.scope_id), expired, revoked, unconfirmed,
        "ck_reviewer_" + "0" * 16 + "_" + "A" * 43, good[:-1] + ("A" if good[-1] != "A" else "B"),
        good.replace("reviewer", "operator"), "hello", "",
    ]  # fmt: skip
    answers = [await running.browser().sign_in(text) for text in wrong]

    assert {answer.status_code for answer in answers} == {401}
    told = {answer.text.partition("<h1>")[2].partition('name="csrf"')[0] for answer in answers}
    assert len(told) == 1
    assert not any("custody-session" in str(answer.headers) for answer in answers)
    assert not any(text in answer.text for text, answer in zip(wrong, answers, strict=True) if text)


async def test_a_session_ends_with_its_key_and_with_the_secret_that_it_was_proven_by(running: Running):
    scope = await running.scope()
    texts = [await running.key(Role.REVIEWER, scope.scope_id) for _ in range(2)]
    browsers = [running.browser() for _ in texts]
    for browser, text in zip(browsers, texts, strict=True):
        await browser.sign_in(text)
    revoked, rotated = (KEY_TEXT.fullmatch(text) for text in texts)
    assert revoked
    assert rotated
    assert [await inside(browser) for browser in browsers] == [True, True]

    await running.services.keys.revoke(revoked["id"], None)
    await running.services.keys.rotate(rotated["id"], None)
    await asyncio.sleep(0.15)
    assert [await inside(browser) for browser in browsers] == [False, True]

    await running.services.keys.retire(rotated["id"], None)
    await asyncio.sleep(0.15)
    assert not await inside(browsers[1])


async def test_a_session_ends_by_resting_and_at_the_latest_after_its_time(
    running: Running, database_url: str
):
    scope = await running.scope()
    resting, old, used = [await running.signed_in(Role.REVIEWER, scope.scope_id) for _ in range(3)]
    rows = await execute(database_url, "SELECT digest FROM console_sessions ORDER BY created_at")
    first, second, third = (row["digest"] for row in rows)
    seen = "UPDATE console_sessions SET seen_at = now() - make_interval(mins => $2) WHERE digest = $1"
    await execute(database_url, seen, first, 31)
    await execute(database_url, "UPDATE console_sessions SET ends_at = now() WHERE digest = $1", second)
    await execute(database_url, seen, third, 29)

    assert [await inside(browser) for browser in (resting, old, used)] == [False, False, True]
    ages = await execute(
        database_url, "SELECT now() - seen_at AS age FROM console_sessions WHERE digest = $1", third
    )
    assert ages[0]["age"].total_seconds() < 60


async def test_a_page_that_looks_again_by_itself_does_not_keep_its_session_from_resting(
    running: Running, database_url: str
):
    scope = await running.scope()
    browser = await running.signed_in(Role.OPERATOR, scope.scope_id)
    await browser.post("/desk/sources", "/session", source="crm")
    erasure = (await browser.post("/desk/erasures", "/session", target="source", name="crm")).headers[
        "location"
    ]
    await execute(database_url, "UPDATE console_sessions SET seen_at = now() - interval '29 minutes'")

    async def rested() -> float:
        (row,) = await execute(
            database_url, "SELECT extract(epoch FROM now() - seen_at)::float8 AS s FROM console_sessions"
        )
        return float(row["s"])

    by_itself = await browser.client.get(erasure, headers={"HX-Request": "true"})
    assert by_itself.status_code == 200
    assert await rested() >= 29 * 60
    assert (await browser.get(erasure)).status_code == 200
    assert await rested() < 29 * 60


async def test_signing_out_everywhere_ends_every_session_of_the_key_and_no_other(running: Running):
    scope = await running.scope()
    text = await running.key(Role.REVIEWER, scope.scope_id)
    browsers = [running.browser() for _ in range(3)]
    for browser in browsers:
        await browser.sign_in(text)
    other = await running.signed_in(Role.REVIEWER, scope.scope_id)
    assert "2 of this key" in (await browsers[0].get("/session")).text

    answer = await browsers[0].post("/sign-out", "/session", everywhere="1")

    assert answer.status_code == 303
    assert [await inside(browser) for browser in (*browsers, other)] == [False, False, False, True]


async def test_failures_are_throttled_by_key_and_by_address(running: Running):
    scope = await running.scope()
    good = await running.key(Role.REVIEWER, scope.scope_id)
    wrong = good[:-2] + ("AA" if not good.endswith("AA") else "BB")
    for number in range(10):
        assert (await running.browser(f"10.0.0.{number}").sign_in(wrong)).status_code == 401
    named = await running.browser("10.0.0.99").sign_in(good)
    never = await running.browser("10.0.0.99").sign_in("ck_reviewer_" + "1" * 16 + "_" + "A" * 43)
    assert (named.status_code, named.headers["retry-after"]) == (429, "300")
    assert "Too many failed attempts. Try again in 5 minutes." in named.text
    assert never.status_code == 401

    browser = running.browser("10.0.1.1")
    for _ in range(50):
        assert (await browser.sign_in("nothing")).status_code == 401
    assert (await browser.sign_in(await running.key(Role.AUDITOR, scope.scope_id))).status_code == 429
    # Whoever only looks, and others, are not kept waiting.
    assert (await browser.get("/sign-in")).status_code == 200
    assert await inside(await running.signed_in(Role.AUDITOR, scope.scope_id))


async def test_a_caller_is_taken_for_whom_a_proxy_names_only_where_there_is_one(
    database_url: str, redis_url: str, keys_dir: Path
):
    async def refused_after(tries: int, **changed: str) -> int:
        async with console(settings_for(database_url, redis_url, keys_dir, **changed)) as running:
            for number in range(tries):
                browser = running.browser(**{"X-Forwarded-For": f"192.0.2.{number}"})
                answer = await browser.sign_in("nothing")
            return answer.status_code

    assert await refused_after(51) == 429
    assert await refused_after(51, console_forwarded="true") == 401


async def test_a_proxy_is_believed_only_with_the_secret(database_url: str, redis_url: str, keys_dir: Path):
    settings = settings_for(database_url, redis_url, keys_dir, console_proxy_secret=SHARED)
    async with console(settings) as running:
        scope = await running.scope()
        key_id = (await running.key(Role.AUDITOR, scope.scope_id)).split("_")[2]
        runtime = (await running.key(Role.RUNTIME, scope.scope_id)).split("_")[2]

        async def entered(**headers: str) -> httpx.Response:
            return await running.browser(**headers).get("/sign-in?next=/session")

        right = {"Custody-Proxy-Secret": SHARED, "Custody-Identity": key_id}
        believed = await entered(**right)
        out = await running.browser(**right).get("/sign-in?out=1")
        no_key = [await entered(**right | {"Custody-Identity": named}) for named in (runtime, "0" * 16, "x")]
        not_believed = [
            await entered(**{"Custody-Identity": key_id}),
            await entered(**right | {"Custody-Proxy-Secret": "t" * 40}),
        ]

        browser = running.browser(**right)
        await browser.get("/sign-in")
        assert await inside(browser)

    assert (believed.status_code, believed.headers["location"]) == (303, "/session")
    assert out.status_code == 200
    assert [(answer.status_code, "names a key that cannot" in answer.text) for answer in no_key] == [
        (401, True)
    ] * 3
    assert [(answer.status_code, "custody-session" in str(answer.headers)) for answer in not_believed] == [
        (200, False)
    ] * 2


async def test_a_session_is_no_good_for_a_request_of_somebody_else_by_the_proxys_word(
    database_url: str, redis_url: str, keys_dir: Path
):
    settings = settings_for(database_url, redis_url, keys_dir, console_proxy_secret=SHARED)
    async with console(settings) as running:
        scope = await running.scope()
        first, second = [
            (await running.key(role, scope.scope_id)).split("_")[2] for role in (Role.REVIEWER, Role.AUDITOR)
        ]
        browser, kept = running.browser(), running.browser()

        def said(key_id: str, **headers: str) -> dict[str, str]:
            return {"Custody-Proxy-Secret": SHARED, "Custody-Identity": key_id, **headers}

        await browser.client.get("/sign-in", headers=said(first))
        mine = (await browser.client.get("/session", headers=said(first))).text
        form = {"csrf": form_token(mine), "purpose": "mine"}
        kept.client.cookies.update(browser.client.cookies)
        theirs = await browser.client.get("/session", headers=said(second))
        sent = await kept.client.post("/session/purpose", data=form, headers=said(second))
        entered = await browser.client.get(theirs.headers["location"], headers=said(second))
        now = await browser.client.get(entered.headers["location"], headers=said(second))
        piece = await browser.client.get("/session", headers=said(first, **{"HX-Request": "true"}))

    assert first in mine
    assert (theirs.status_code, theirs.headers["location"]) == (303, "/sign-in?next=%2Fsession")
    # The browser does not keep what is another's.
    assert "Max-Age=0" in theirs.headers["set-cookie"]
    assert (sent.status_code, piece.status_code, piece.headers["hx-redirect"]) == (401, 401, "/sign-in")
    assert (now.status_code, second in now.text, first in now.text) == (200, True, False)
    rows = await execute(database_url, "SELECT key_id, purpose FROM console_sessions ORDER BY created_at")
    assert [tuple(row) for row in rows] == [(first, None), (second, None)]


async def test_without_a_secret_no_header_is_believed(running: Running):
    scope = await running.scope()
    key_id = (await running.key(Role.OPERATOR, scope.scope_id)).split("_")[2]
    headers = {"Custody-Proxy-Secret": "", "Custody-Identity": key_id}
    assert (await running.browser(**headers).get("/sign-in")).status_code == 200
    browser = await running.signed_in(Role.REVIEWER, scope.scope_id)
    browser.client.headers.update(headers)
    assert await inside(browser)


@pytest.mark.parametrize(
    ("wanted", "led"),
    [
        ("/runs/r-1/exchanges/x?attempt=2#call-0", "/runs/r-1/exchanges/x?attempt=2#call-0"),
        ("/runs?label=größe", "/runs?label=gr%C3%B6%C3%9Fe"),
        ("//evil.example/", "/runs"),
        ("/\\evil.example/", "/runs"),
        ("https://evil.example/", "/runs"),
        ("/\tevil", "/runs"),
        ("javascript:alert(1)", "/runs"),
        ("", "/runs"),
    ],
)
def test_one_is_led_nowhere_but_here(wanted: str, led: str):
    assert redirect(local(wanted)).headers["Location"] == led


async def test_an_operators_signing_in_is_an_operator_action(running: Running, database_url: str):
    scope = await running.scope()
    for role in (Role.OPERATOR, Role.REVIEWER):
        await running.signed_in(role, scope.scope_id)
    await running.signed_in(Role.OPERATOR)
    rows = await execute(
        database_url, "SELECT scope_id, key_id, target FROM operator_actions WHERE action = 'signed_in'"
    )
    assert len(rows) == 2
    assert all(row["key_id"] == row["target"] for row in rows)
    assert scope.scope_id in {row["scope_id"] for row in rows}


async def test_a_purpose_is_kept_with_the_session_and_recorded_with_what_is_done(running: Running):
    scope = await running.scope()
    browser = await running.signed_in(Role.REVIEWER, scope.scope_id)
    kept = await browser.post("/session/purpose", purpose="audit <b> 7", next="/runs?label=a")
    shown = (await browser.get("/session")).text
    refused = await browser.post("/session/purpose", purpose="x" * 201)

    assert (kept.status_code, kept.headers["location"]) == (303, "/runs?label=a")
    assert 'value="audit &lt;b&gt; 7"' in shown
    assert (refused.status_code, "at most 200 printable" in refused.text) == (400, True)
