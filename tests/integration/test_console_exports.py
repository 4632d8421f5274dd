"""Bundles asked for and fetched in the console, and what a verifier makes of them."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from uuid import UUID, uuid4

import httpx
import pytest
import pytest_asyncio

from policies.kinds import Role
from policies.reasons import Reason
from store.errors import Unavailable
from store.services.export.parts import PartReads
from tests.support.console import Browser, console
from tests.support.databases import clone_of
from tests.support.exporting import files, lines, states
from tests.support.hall import SIGNED_IN, Hall, hall
from tests.support.stack import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

OK, SEE_OTHER, BAD, FORBIDDEN, NOT_FOUND, UNAVAILABLE = 200, 303, 400, 403, 404, 503


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(
    postgres_url: str, template_database: str, valkey_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Hall]:
    async with (
        clone_of(postgres_url, template_database) as url,
        hall(url, valkey_url, tmp_path_factory.mktemp("hall")) as made,
    ):
        yield made


async def ask(browser: Browser, **fields: str) -> httpx.Response:
    return await browser.post("/exports", "/exports", **fields)


async def asked(browser: Browser, **fields: str) -> str:
    """Ask, and return the page of the export."""
    answer = await ask(browser, **fields)
    assert answer.status_code == SEE_OTHER, answer.text
    return answer.headers["location"]


async def fetch(browser: Browser, export: str) -> httpx.Response:
    return await browser.post(f"{export}/bundle", export)


async def test_a_bundle_from_the_console_verifies(opened: Hall):
    run, evidence = await opened.part(b"the whole of it")
    _, other = await opened.part(b"another")
    await opened.desk.publish()
    anchor = await opened.desk.checkpoint()
    size = anchor.split(b"\n")[1].decode()
    reviewer = await opened.enter(Role.REVIEWER)
    before = (await reviewer.get("/exports")).text
    export = await asked(reviewer, runs=run, evidence=f"{other}\n", anchors=size, purpose="case 9")
    fresh = (await reviewer.get(export)).text
    given = await fetch(reviewer, export)
    after = (await reviewer.get(export)).text
    listed = (await reviewer.get("/exports")).text

    assert "asked for no bundle" in before
    assert (given.status_code, given.headers["content-type"]) == (OK, "application/zip")
    report = opened.desk.verified(given.content, anchor)
    assert (report.exit, states(report)) == (0, [])
    found = files(given.content)
    assert found[f"data/parts/{evidence.hex}/content"] == b"the whole of it"
    assert {(each["outcome"], each["purpose"]) for each in lines(found, "accesses.jsonl")} == {
        ("read", "case 9")
    }
    assert 'data-state="ready"' in fresh
    assert 'data-state="given"' in after
    assert f'href="{export}"' in listed
    name = given.headers["content-disposition"].rpartition("'")[2]
    assert f"custody verify {name} --policy policy.txt --anchor checkpoint" in after
    # The content is in the bundle alone.
    assert "the whole of it" not in fresh + after + listed


async def test_what_cannot_be_asked_for_is_said_with_the_form_as_it_was_filled(opened: Hall):
    run, evidence = await opened.part()
    await opened.desk.publish()
    reviewer = await opened.enter(Role.REVIEWER)
    for fields, status, said in (
        ({}, BAD, "name runs, or parts"),
        ({"runs": "no-such-run"}, NOT_FOUND, "a run of these is not there"),
        ({"runs": "../x"}, BAD, "an id is 1 to 128"),
        ({"evidence": "x"}, BAD, "a list of evidence references"),
        ({"runs": run, "anchors": "many"}, BAD, "anchors are sizes"),
        ({"runs": run, "anchors": "99999999"}, BAD, "the last that was published"),
        ({"runs": run, "purpose": "a\u202eb"}, BAD, "printable characters"),
    ):
        answer = await ask(reviewer, **fields)
        assert (answer.status_code, said in answer.text) == (status, True), (fields, answer.text)
        for value in fields.values():
            assert value in answer.text, fields
    prefilled = (await reviewer.get("/exports", runs=run, evidence=str(evidence))).text
    assert f">{run}</textarea>" in prefilled
    assert f">{evidence}</textarea>" in prefilled


async def test_a_scope_that_demands_a_purpose_is_asked_for_it(opened: Hall):
    scope = await opened.running.scope(f"strict-{uuid4().hex[:8]}", purpose_required=True)
    reviewer = await opened.running.signed_in(Role.REVIEWER, scope.scope_id)
    shown = (await reviewer.get("/exports")).text
    refused = await ask(reviewer, evidence=str(uuid4()))
    await reviewer.post("/session/purpose", "/session", purpose="case 7")
    told = (await reviewer.get("/exports")).text
    assert "required here" in shown
    assert (refused.status_code, "this scope demands it" in refused.text) == (BAD, True)
    assert 'value="case 7"' in told


async def test_an_export_is_its_own_keys_and_anothers_is_the_same_as_none(opened: Hall):
    run, _ = await opened.part()
    await opened.desk.publish()
    reviewer = await opened.enter(Role.REVIEWER)
    export = await asked(reviewer, runs=run)
    none = f"/exports/{uuid4()}"
    for other in (
        await opened.enter(Role.REVIEWER),
        await opened.enter(Role.REVIEWER, await opened.desk.shelf.house.add_scope()),
    ):
        theirs, nothing = await other.get(export), await other.get(none)
        assert theirs.status_code == nothing.status_code == NOT_FOUND
        assert theirs.text.replace(export, "") == nothing.text.replace(none, "")
        assert (await other.post(f"{export}/bundle", "/exports")).status_code == NOT_FOUND
        assert export not in (await other.get("/exports")).text


async def test_while_a_bundle_is_made_every_console_tells_how_far_it_is(
    opened: Hall, monkeypatch: pytest.MonkeyPatch
):
    run, evidence = await opened.part()
    await opened.desk.publish()
    reviewer = await opened.enter(Role.REVIEWER)
    export = await asked(reviewer, runs=run)
    go_on, reached = asyncio.Event(), asyncio.Event()
    read = PartReads.read

    async def held(*arguments: object) -> AsyncGenerator[object, None]:
        async for group in read(*arguments):  # type: ignore[arg-type] # handed on as they came
            yield group
            reached.set()
            await go_on.wait()

    monkeypatch.setattr(PartReads, "read", held)
    async with console(opened.running.services.settings) as another:
        there = another.browser()
        there.client.cookies.update(reviewer.client.cookies)
        fetching = asyncio.create_task(fetch(reviewer, export))
        await asyncio.wait_for(reached.wait(), 5)
        for browser in (reviewer, there):
            assert 'data-state="making"' in await piece_of(browser, export)

            async def one_is_in(browser: Browser = browser) -> str:
                text = await piece_of(browser, export)
                return text if "1 of 1 parts" in text else ""

            piece = await until(one_is_in, "a part is in it")
            assert ("every 1s" in piece, "<html" in piece) == (True, False)
            assert "being made" in (await browser.get("/exports")).text
        go_on.set()
        given = await fetching
        for browser in (reviewer, there):
            after = await piece_of(browser, export)
            assert ('data-state="given"' in after, "every 1s" in after) == (True, False)

    assert states(opened.desk.verified(given.content)) == []
    assert UUID(lines(files(given.content), "accesses.jsonl")[0]["evidence"]) == evidence


async def test_of_a_bundle_that_broke_off_every_console_says_so(
    opened: Hall, monkeypatch: pytest.MonkeyPatch
):
    run, _ = await opened.part()
    await opened.desk.publish()
    reviewer = await opened.enter(Role.REVIEWER)
    export = await asked(reviewer, runs=run)

    async def away(*_: object) -> None:
        raise Unavailable(Reason.STORE_UNAVAILABLE)

    monkeypatch.setattr(PartReads, "_group", away)
    answer = await fetch(reviewer, export)
    assert answer.status_code == UNAVAILABLE
    async with console(opened.running.services.settings) as another:
        there = another.browser()
        there.client.cookies.update(reviewer.client.cookies)
        for browser in (reviewer, there):
            piece, listed = await piece_of(browser, export), (await browser.get("/exports")).text
            assert ('data-state="begun"' in piece, "every 1s" in piece) == (True, False)
            assert ("not fetched to its end" in listed, "being made" in listed) == (True, False)


async def test_a_bundle_of_a_process_that_died_is_not_being_made(opened: Hall):
    run, _ = await opened.part()
    await opened.desk.publish()
    reviewer = await opened.enter(Role.REVIEWER)
    export = await asked(reviewer, runs=run)
    died = (
        "UPDATE exports SET state = 'begun', done = 1, beat_at = now() - make_interval(secs => $2)"
        " WHERE export_id = $1"
    )
    for ago_s, state in ((1.0, "making"), (11.0, "begun")):
        await opened.desk.shelf.house.execute(died, UUID(export.rpartition("/")[2]), ago_s)
        assert f'data-state="{state}"' in await piece_of(reviewer, export)


async def piece_of(browser: Browser, export: str) -> str:
    """What the page of an export asks for again and again."""
    return (await browser.client.get(export, headers={"HX-Request": "true"})).text


async def test_who_exports_is_who_reads_or_proves(opened: Hall):
    run, _ = await opened.part()
    await opened.desk.publish()
    for role in SIGNED_IN:
        browser = await opened.enter(role)
        allowed = role is not Role.OPERATOR
        assert (await browser.get("/exports")).status_code == (OK if allowed else FORBIDDEN), role
        answer = await browser.post("/exports", "/session", runs=run)
        assert answer.status_code == (SEE_OTHER if allowed else FORBIDDEN), role
        # An auditor's bundle has proofs, and names each part as one that its key does not read.
        if allowed:
            given = await fetch(browser, answer.headers["location"])
            facts = json.loads(files(given.content)["data/bundle.json"])
            assert (facts["parts"], facts["unavailable"]) == ((0, 1) if role is Role.AUDITOR else (1, 0))
            assert states(opened.desk.verified(given.content)) == []
