"""What the console sends for a while: for as long as key and session are good, and for no longer than it may take."""

import io
import re
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from html import unescape
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
import pytest_asyncio

from console.pages import lists
from policies.kinds import Role
from store.services.export import parts
from store.services.export.parts import PartReads
from store.services.run_lists import RunLists
from tests.support.console import HERE, Browser
from tests.support.databases import clone_of
from tests.support.hall import Hall, hall

pytestmark = pytest.mark.asyncio(loop_scope="module")

OK = 200


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(
    postgres_url: str, template_database: str, valkey_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Hall]:
    async with (
        clone_of(postgres_url, template_database) as url,
        hall(url, valkey_url, tmp_path_factory.mktemp("hall")) as made,
    ):
        yield made


async def taken(opened: Hall, browser: Browser, method: str, path: str, **form: str) -> tuple[bytes, bool]:
    """Ask for something that is sent while it is made; return what came, and whether it had an end."""
    came, whole = bytearray(), False

    async def noted(scope: Any, receive: Any, send: Any) -> None:
        async def passed(message: Any) -> None:
            nonlocal whole
            if message["type"] == "http.response.body":
                came.extend(message["body"])
                whole = not message.get("more_body", False)
            await send(message)

        await opened.running.app(scope, receive, passed)
        if not whole:
            # A server closes the connection; here somebody waits.
            await send({"type": "http.response.body", "body": b""})

    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(noted), base_url=HERE, cookies=browser.client.cookies
    ) as client:
        answer = await client.request(method, path, data=form or None)
    assert answer.status_code == OK, answer.text
    return bytes(came), whole


async def asked(
    opened: Hall, many: int
) -> tuple[Browser, str, list[UUID], Callable[[], Awaitable[tuple[bytes, bool]]]]:
    """Ask for a bundle of so many parts; return who asked, their key, the parts, and what fetches it."""
    run = await opened.desk.shelf.house.declare()
    stored = [await opened.desk.shelf.store(run, b"secret", exchange=f"x-{at}") for at in range(many)]
    await opened.desk.publish()
    reviewer = await opened.enter(Role.REVIEWER)
    export = (await reviewer.post("/exports", "/exports", runs=run.run)).headers["location"]
    token = (await reviewer.get(export)).text.partition('name="csrf" value="')[2].partition('"')[0]
    fetch = partial(taken, opened, reviewer, "POST", f"{export}/bundle", csrf=token)
    return reviewer, await key_of(opened, reviewer), stored, fetch


async def key_revoked(opened: Hall, key_id: str) -> None:
    await opened.running.services.keys.revoke(key_id, None)


async def signed_out(opened: Hall, key_id: str) -> None:
    await opened.desk.shelf.house.execute("DELETE FROM console_sessions WHERE key_id = $1", key_id)


async def session_over(opened: Hall, key_id: str) -> None:
    sql = "UPDATE console_sessions SET ends_at = now() WHERE key_id = $1"
    await opened.desk.shelf.house.execute(sql, key_id)


async def rested(opened: Hall, key_id: str) -> None:
    sql = "UPDATE console_sessions SET seen_at = now() - interval '1 hour' WHERE key_id = $1"
    await opened.desk.shelf.house.execute(sql, key_id)


async def key_of(opened: Hall, browser: Browser) -> str:
    sql = "SELECT key_id FROM console_sessions ORDER BY created_at DESC LIMIT 1"
    assert (await browser.get("/session")).status_code == OK
    return str(await opened.desk.shelf.house.value(sql))


@pytest.fixture
def after_one(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str, Callable[[], Awaitable[None]]], None]:
    """Let something happen once a method has been asked for the first time."""

    def arrange(of: Any, name: str, happens: Callable[[], Awaitable[None]]) -> None:
        asked, times = getattr(of, name), 0

        async def then(*arguments: Any) -> Any:
            nonlocal times
            times += 1
            found = await asked(*arguments)
            if times == 1:
                await happens()
            return found

        monkeypatch.setattr(of, name, then)

    return arrange


@pytest.mark.parametrize("ends", [key_revoked, signed_out, session_over])
async def test_a_bundle_ends_with_the_key_or_the_session_that_takes_it(
    opened: Hall, monkeypatch: pytest.MonkeyPatch, after_one, ends
):
    _, key_id, stored, fetch = await asked(opened, 3)
    monkeypatch.setattr(parts, "_MOST_TOGETHER", 1)
    after_one(PartReads, "_group", lambda: ends(opened, key_id))
    came, whole = await fetch()

    assert not whole
    with pytest.raises(zipfile.BadZipFile):
        zipfile.ZipFile(io.BytesIO(came))
    assert await read(opened, key_id) == stored[:1]


async def test_a_session_that_rests_while_a_bundle_is_sent_gets_the_whole_of_it(
    opened: Hall, monkeypatch: pytest.MonkeyPatch, after_one
):
    reviewer, key_id, stored, fetch = await asked(opened, 2)
    monkeypatch.setattr(parts, "_MOST_TOGETHER", 1)
    after_one(PartReads, "_group", lambda: rested(opened, key_id))
    came, whole = await fetch()

    assert whole
    assert zipfile.ZipFile(io.BytesIO(came)).testzip() is None
    assert await read(opened, key_id) == stored
    # To take it was no use of the session either.
    assert (await reviewer.get("/runs")).status_code == httpx.codes.SEE_OTHER


@pytest.mark.parametrize("ends", [key_revoked, signed_out])
async def test_a_list_as_a_file_ends_with_the_key_or_the_session_that_takes_it(
    opened: Hall, monkeypatch: pytest.MonkeyPatch, after_one, ends
):
    runs = [(await opened.part())[0] for _ in range(3)]
    reviewer = await opened.enter(Role.REVIEWER)
    key_id = await key_of(opened, reviewer)

    monkeypatch.setattr(lists, "MOST", 1)
    after_one(RunLists, "page", lambda: ends(opened, key_id))
    came, whole = await taken(opened, reviewer, "GET", "/lists/runs/jsonl")

    assert not whole
    assert [run in came.decode() for run in runs] == [False, False, True]


async def test_files_of_a_list_are_of_the_scope_of_the_page_that_offers_them(opened: Hall):
    run, evidence = await opened.part()
    await opened.read(evidence, "case 7")
    house = opened.desk.shelf.house
    name = await house.value("SELECT name FROM scopes WHERE scope_id = $1", house.scope)
    other = await opened.running.scope(f"other-{uuid4().hex[:8]}")
    wide = await opened.running.signed_in(Role.OPERATOR)
    await wide.post("/session/purpose", "/session", purpose="a look")
    bound = await opened.enter(Role.OPERATOR)
    for path, known in (("/runs", run), ("/accesses?order=oldest", str(evidence)), (f"/runs/{run}", run)):
        files = files_of(await wide.get(f"{path}{'&' if '?' in path else '?'}scope={name}"))
        assert files, path
        for file in files:
            # Another page looks elsewhere meanwhile.
            await wide.get("/desk", scope=other.name)
            assert known in (await wide.get(file)).text, file
            # And goes on looking there.
            assert other.name in (await wide.get("/runs")).text, file
        # A key of one scope has no choice, and its addresses name none.
        assert not any("scope=" in file for file in files_of(await bound.get(path)))


def files_of(page: httpx.Response) -> list[str]:
    return [unescape(each) for each in re.findall(r'href="(/lists/[^"]+)"', page.text)]


async def read(opened: Hall, key_id: str) -> list[UUID]:
    sql = "SELECT evidence FROM accesses WHERE key_id = $1 AND outcome = 'read' ORDER BY evidence"
    return [row["evidence"] for row in await opened.desk.shelf.house.rows(sql, key_id)]
