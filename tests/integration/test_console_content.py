"""Reading on the console: both sides of an attempt, every way in which one is not there, raw bytes, and comparing."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from markupsafe import escape

from console import words
from policies.kinds import Role
from policies.reasons import Reason
from store.ids import ScopeId
from tests.support import factories
from tests.support.api import settings_for
from tests.support.console import Browser, Running, console
from tests.support.factories import OUTPUT, REQUEST, House, Run, evidence_of

CANARY = "CANARY-7f3a"
ASKED = json.dumps({"model": "small-1", "messages": [{"role": "user", "content": f"{CANARY} asks"}]}).encode()
ANSWERED = json.dumps(
    {
        "schema": "observable-output/1",
        "choices": [
            {
                "index": 0,
                "role": "assistant",
                "items": [{"type": "text", "text": "Leaf 212."}],
                "finish": None,
            }
        ],
        "usage": {"input": 11, "output": None, "source": "provider"},
    }
).encode()


@dataclass(frozen=True, slots=True)
class Desk:
    """A console and the house behind it."""

    console: Running
    house: House

    async def store(self, run: Run, content: bytes, **facts: Any) -> UUID:
        entry = self.house.part(run, content, **facts)
        done = await self.house.persister().persist([entry])
        assert {each.outcome for each in done.settlements} == {"stored"}
        return evidence_of(entry)

    async def both(self, run: Run, **facts: Any) -> None:
        await self.store(run, ASKED, kind=REQUEST, **facts)
        await self.store(run, ANSWERED, kind=OUTPUT, **facts)

    async def reader(self, role: Role = Role.REVIEWER, scope: UUID | None = None) -> Browser:
        return await self.console.signed_in(role, ScopeId(scope or self.house.scope))

    async def accesses(self) -> list[tuple[str | None, str]]:
        rows = await self.house.rows("SELECT purpose, outcome FROM accesses ORDER BY at, access_id")
        return [(row["purpose"], row["outcome"]) for row in rows]


@asynccontextmanager
async def opened(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Desk]:
    async with (
        factories.house(database_url, keys_dir) as house,
        console(settings_for(database_url, redis_url, keys_dir)) as running,
    ):
        yield Desk(running, house)


@pytest.fixture
async def desk(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Desk]:
    async with opened(database_url, redis_url, keys_dir) as found:
        yield found


def path_of(run: Run, exchange: str = "exchange-1", attempt: str = "attempt-1") -> str:
    return f"/runs/{run.run}/exchanges/{exchange}/attempts/{attempt}"


async def test_both_sides_are_read_recorded_and_shown(desk: Desk, capfd: pytest.CaptureFixture[str]):
    run = await desk.house.declare()
    await desk.both(run)
    browser = await desk.reader()
    first = await browser.get(path_of(run))
    said = await browser.post("/session/purpose", path_of(run), purpose="incident 7", next=path_of(run))
    again = await browser.get(path_of(run), view="raw")

    assert first.status_code == 200
    assert all(word in first.text for word in (f"{CANARY} asks", "Leaf 212.", "without a purpose"))
    assert first.text.count('<span class="unknown">unknown</span>') >= 4, (
        "dispatch, settlement, usage, capture"
    )
    assert (said.status_code, said.headers["location"]) == (303, path_of(run))
    assert "incident 7" in again.text
    assert "&#34;output&#34;: null" in again.text
    # Twice before the purpose was said: the form's token came with the page, which read both sides again.
    assert await desk.accesses() == [*[(None, "read")] * 4, *[("incident 7", "read")] * 2]
    assert first.headers["cache-control"] == "no-store"
    out, err = capfd.readouterr()
    assert CANARY not in out + err
    assert "incident 7" not in out + err


CLOSED: list[tuple[str, Reason, str]] = [
    ("UPDATE runs SET retain_until = now()", Reason.RETENTION_EXPIRED, "Kept until"),
    ("UPDATE runs SET erased = true", Reason.ERASED, "Looked at"),
    (
        "UPDATE parts SET state = 'purging', purge_reason = 'erased', purging_at = now()",
        Reason.ERASED,
        "Destruction began",
    ),
    ("UPDATE sources SET revoked_at = now()", Reason.SOURCE_UNAVAILABLE, "Source revoked"),
    ("UPDATE source_versions SET withdrawn_at = now()", Reason.DEPENDENCY_CHANGED, "Version withdrawn"),
    ("DELETE FROM bodies", Reason.LOST_IN_RESTORE, "Looked at"),
    ("UPDATE parts SET commitment = sha256('other')", Reason.INTEGRITY_MISMATCH, "Looked at"),
    ("UPDATE sources SET audience = '{legal}'", Reason.PERMISSION_DENIED, "Looked at"),
    # A bucket goes forward only: what would come after this one has expired too.
    (
        "UPDATE buckets SET state = 'expired', expired_at = now()",
        Reason.RETENTION_EXPIRED,
        "Expired with its bucket",
    ),
]


async def test_each_reason_is_a_sentence_with_its_time_and_proof_and_no_byte(desk: Desk):
    browser = await desk.reader()
    for number, (change, reason, since) in enumerate(CLOSED):
        await desk.house.execute("DELETE FROM source_versions")
        await desk.house.execute("DELETE FROM sources")
        await desk.house.add_source("doc-7")
        run = await desk.house.declare(f"closed-{number}")
        evidence = await desk.store(run, ASKED, sources=[("doc-7", 1)])
        await desk.house.execute(change)
        page = await browser.get(path_of(run))
        assert page.status_code == 200, change
        assert f'data-reason="{reason.value}"' in page.text, change
        for word in (words.at_read(reason).name, escape(words.at_read(reason).sentence), since):
            assert word in page.text, (change, word)
        assert f'href="/parts/{evidence}"' in page.text
        assert CANARY not in page.text
        assert (await desk.accesses())[-1] == (None, reason.value)


async def test_a_lost_key_is_said_and_shows_nothing(desk: Desk):
    run = await desk.house.declare()
    await desk.store(run, ASKED)
    desk.house.keyring.destroy_bucket_key(run.scope, await desk.house.value("SELECT bucket_id FROM parts"))
    page = await (await desk.reader()).get(path_of(run))
    assert 'data-reason="key_lost"' in page.text
    assert CANARY not in page.text


async def test_what_expired_and_is_held_is_a_custodians_who_says_why(desk: Desk):
    run = await desk.house.declare()
    await desk.store(run, ASKED)
    await desk.house.execute(
        "INSERT INTO holds (scope_id, hold_id, reach, run_uid, answer, placed_by)"
        " VALUES ($1, gen_random_uuid(), 'run', $2, 'placed', 'key')", run.scope, run.run_uid,
    )  # fmt: skip
    await desk.house.execute("UPDATE runs SET retain_until = now()")
    reviewed = await (await desk.reader()).get(path_of(run))
    custodian = await desk.reader(Role.CUSTODIAN)
    before = await custodian.get(path_of(run))
    await custodian.post("/session/purpose", path_of(run), purpose="case 9")
    after = await custodian.get(path_of(run))

    assert 'data-reason="expired_held"' in reviewed.text
    assert ('data-reason="purpose"' in before.text, CANARY in before.text) == (True, False)
    assert CANARY in after.text


async def test_what_was_not_stored_waits_or_was_never_told_is_each_its_own_state(desk: Desk):
    run = await desk.house.declare()
    await desk.house.persister().persist(
        [
            desk.house.gap(
                run, Reason.PART_TOO_LARGE, said_by="store", identity=("exchange-1", "attempt-1", REQUEST)
            )
        ]
    )
    waiting = desk.house.part(run, ANSWERED, exchange="exchange-2", kind=OUTPUT)
    await factories.queue_up(desk.console.services.queue, run, [waiting])
    browser = await desk.reader()
    missed, queued = await browser.get(path_of(run)), await browser.get(path_of(run, "exchange-2"))

    assert 'data-reason="not_stored"' in missed.text
    assert words.of(Reason.PART_TOO_LARGE).sentence in missed.text
    assert f'href="/runs/{run.run}/gaps"' in missed.text
    assert 'data-reason="not_received"' in missed.text
    assert 'data-reason="queued"' in queued.text
    assert (await browser.get(path_of(run, "exchange-3"))).status_code == 404


async def test_reads_closed_and_an_outage_are_no_refusals(desk: Desk):
    run = await desk.house.declare()
    await desk.both(run)
    browser = await desk.reader()
    await desk.house.execute("UPDATE log_state SET stop = 'forked', stopped_at = now()")
    page = await browser.get(path_of(run))
    assert (page.status_code, 'data-reason="reads_closed"' in page.text) == (503, True)
    assert CANARY not in page.text


async def test_a_purpose_that_is_demanded_is_asked_for_first(desk: Desk):
    scope = await desk.house.add_scope({"purpose_required": True})
    run = await desk.house.declare(scope=scope)
    evidence = await desk.store(run, ASKED)
    browser = await desk.reader(scope=scope)
    for path in (path_of(run), f"/parts/{evidence}/raw"):
        page = await browser.get(path)
        assert ("Say what you read for." in page.text, CANARY in page.text) == (True, False)
    assert await desk.accesses() == []
    await browser.post("/session/purpose", purpose="incident 7")
    assert CANARY in (await browser.get(path_of(run))).text
    assert await desk.accesses() == [("incident 7", "read")]


async def test_roles_without_content_and_other_scopes_see_none_of_it(desk: Desk):
    run = await desk.house.declare("same-run")
    await desk.both(run)
    evidence = await desk.house.value("SELECT evidence FROM parts LIMIT 1")
    auditor = await desk.reader(Role.AUDITOR)
    page = await auditor.get(path_of(run))
    assert (page.status_code, CANARY in page.text, 'data-reason="permission_denied"' in page.text) == (
        200,
        False,
        True,
    )
    assert (await auditor.get(f"/parts/{evidence}/raw")).status_code == 403

    foreign = await desk.reader(scope=await desk.house.add_scope())
    for path in (path_of(run), f"/parts/{evidence}/raw", "/runs/same-run/compare",
                 "/runs/same-run/compare?left=exchange-1&right=exchange-1"):  # fmt: skip
        refused = await foreign.get(path)
        never = await foreign.get(path.replace("same-run", "no-run").replace(str(evidence), str(uuid4())))
        assert (refused.status_code, CANARY in refused.text) == (404, False)
        assert _main(refused.text) == _main(never.text)
    assert await desk.accesses() == []


async def test_raw_bytes_are_text_in_a_sandbox_or_kept(desk: Desk):
    browser = await desk.reader()
    for content, media_type, text in (
        (b"<script>alert(1)</script>", "text/html", True),
        (b"\xff\xfe", "text/plain", False),
    ):
        evidence = await desk.store(await desk.house.declare(), content, media_type=media_type)
        raw = await browser.get(f"/parts/{evidence}/raw")
        assert raw.content == content
        assert raw.headers["content-type"] == (
            "text/plain; charset=utf-8" if text else "application/octet-stream"
        )
        assert raw.headers.get("content-disposition") == (
            None if text else f'attachment; filename="{evidence}.bin"'
        )
        assert "sandbox" in raw.headers["content-security-policy"]
        assert (raw.headers["x-content-type-options"], raw.headers["cache-control"]) == (
            "nosniff",
            "no-store",
        )
    assert (await browser.get("/parts/no-uuid/raw")).status_code == 404


NASTY = '<iframe srcdoc="<script>alert(1)</script>">\u202e\x1b]8;;</pre></main><img src=//collector.example>'


async def test_markup_in_content_reaches_no_page(desk: Desk):
    run = await desk.house.declare()
    call = {
        "role": NASTY,
        "content": NASTY,
        "tool_calls": [{"function": {"name": NASTY, "arguments": NASTY}}],
    }
    await desk.store(
        run, json.dumps({"model": NASTY, "messages": [call], "tools": [{"name": NASTY}]}).encode()
    )
    await desk.store(
        run, f"event: {NASTY}\ndata: {NASTY}\n\n".encode(), kind=OUTPUT, media_type="text/event-stream"
    )
    await desk.store(run, b"{}", exchange="exchange-2")
    browser = await desk.reader()
    compared = f"/runs/{run.run}/compare?left=exchange-1/attempt-1&right=exchange-2"
    for path in (*(f"{path_of(run)}?view={view}" for view in ("pretty", "raw", "stream")), compared):
        page = await browser.get(path)
        assert page.status_code == 200
        assert "&lt;iframe" in page.text
        for word in ("<iframe", "<img src=//", "</pre></main>", "\u202e", "\x1b"):
            assert word not in page.text, (path, word)
    assert (await browser.get(path_of(run), view="html")).status_code == 400


async def test_a_type_that_content_made_up_stands_in_no_markup(desk: Desk):
    run = await desk.house.declare()
    said = {"role": "assistant", "content": [{"type": 'a\u200b"b', "x": 1}]}
    await desk.store(run, json.dumps(said).encode())
    page = (await (await desk.reader()).get(path_of(run))).text
    assert '<span class="unseen" title="U+200B zero width space">U+200B</span>' in page
    assert [tag for tag in re.findall(r"<[a-z][^>]*>", page) if "<" in tag[1:]] == []


def _boxes(html: str) -> list[str]:
    """Return the texts of boxes as a browser has them: one line break behind the tag is none of the text."""
    return re.findall(r"<pre[^>]*>\n?(.*?)</pre>", html, re.DOTALL)


async def test_line_breaks_at_the_beginning_are_shown_and_blank_content_is_said_to_be_blank(desk: Desk):
    run, browser, blank = await desk.house.declare(), await desk.reader(), "only blanks and line breaks"
    prose = json.dumps({"messages": [{"role": "user", "content": "\n\nhello"}]})
    for number, (content, view, shown) in enumerate(
        [
            ("\n\nhello", "raw", "\n\nhello"), ("hello\n", "raw", "hello\n"), (prose, "pretty", "\n\nhello"),
            (" \t\n", "raw", " \t\n"), ("\n", "pretty", "\n"), (prose.replace("hello", ""), "pretty", "\n\n"),
        ]
    ):  # fmt: skip
        exchange = f"x-{number}"
        await desk.store(run, content.encode(), exchange=exchange)
        page = (await browser.get(path_of(run, exchange), view=view)).text
        assert _boxes(page) == [shown], (content, view)
        assert (blank in page) is (not shown.strip()), (content, view)


async def test_attempts_are_compared_by_message_and_then_by_line(desk: Desk):
    run = await desk.house.declare()
    await desk.both(run)
    later = ASKED.replace(b"small-1", b"large-2")
    await desk.store(run, later, attempt="attempt-2")
    await desk.store(run, ANSWERED, attempt="attempt-2", kind=OUTPUT)
    browser = await desk.reader()
    page = (
        await browser.get(f"/runs/{run.run}/compare", left="exchange-1/attempt-1", right="exchange-1")
    ).text
    assert "They are the same, byte for byte." in page
    assert "Model: small-1</del>" in page
    assert "Model: large-2</ins>" in page
    assert f"{CANARY} asks" not in page, "what is the same is not shown again"
    assert [outcome for _, outcome in await desk.accesses()] == ["read"] * 4
    one = (await browser.get(path_of(run))).text
    assert f'href="{path_of(run, attempt="attempt-2")}?view=pretty"' in one
    assert "1 of 2 of this exchange" in one
    assert (await browser.get(f"/runs/{run.run}/compare", left="exchange-1")).status_code == 400


async def test_what_is_known_of_an_attempt_is_shown_however_often_the_call_was_tried(desk: Desk):
    run, began = await desk.house.declare(), datetime.now(UTC) - timedelta(hours=1)
    tries: Any = [
        desk.house.part(
            run, b"{}", exchange="x-1", attempt=f"a-{n:04}", received_at=began + timedelta(seconds=n)
        )
        for n in range(204)
    ]
    lost = desk.house.gap(
        run,
        Reason.CLIENT_TRANSPORT,
        identity=("x-1", "a-0204", OUTPUT),
        at=began + timedelta(seconds=204),
    )
    told = desk.house.state(
        run, exchange="x-1", attempt="a-0203", dispatch="dispatched", settlement="completed"
    )
    await desk.house.persister().persist([*tries, lost, told])
    browser, pages = await desk.reader(), f"/runs/{run.run}/exchanges/x-1/attempts"
    one = (await browser.get(f"{pages}/a-0203")).text
    assert "204 of 205 of this exchange" in one
    assert f"{began + timedelta(seconds=203):%Y-%m-%d %H:%M:%S} UTC" in one
    assert all(f"<dd>{said}</dd>" in one for said in ("dispatched", "completed"))
    assert [f'href="{pages}/a-{n}?view=pretty"' in one for n in ("0202", "0204")] == [True, True]
    last = (await browser.get(f"{pages}/a-0204")).text
    assert ("205 of 205 of this exchange" in last, "Next attempt" in last) == (True, False)
    for right, latest in (("x-1", "a-0204"), ("x-1/a-0203", None)):
        compared = await browser.get(f"/runs/{run.run}/compare", left="x-1/a-0001", right=right)
        assert compared.status_code == 200, right
        found = re.search(r">x-1 / (a-\d+)</a> <span class=\"help\">its last attempt", compared.text)
        assert (found and found[1]) == latest
    never = await browser.get(f"/runs/{run.run}/compare", left="x-1/a-0001", right="x-1/a-0205")
    assert never.status_code == 404


def _numbered(html: str) -> list[tuple[int, str]]:
    """Return the attempts of the first picture of a page, with their numbers."""
    picture = html.partition("</svg>")[0]
    return [(int(n), name) for n, name in re.findall(r"<title>x-1, attempt (\d+) \((.*?)\)", picture)]


async def test_attempts_keep_their_numbers_on_every_page_of_their_exchange_both_ways(desk: Desk):
    run, began = await desk.house.declare(), datetime.now(UTC) - timedelta(hours=1)
    await desk.house.persister().persist(
        [
            desk.house.part(
                run, b"{}", exchange="x-1", attempt=f"a-{n}", received_at=began + timedelta(seconds=n)
            )
            for n in range(1, 91)
        ]
    )
    browser, path, seen = await desk.reader(), f"/runs/{run.run}/exchanges/x-1", []
    way: str | None = path
    while way is not None:
        page = (await browser.get(way)).text
        seen.append(_numbered(page))
        way = _linked(page, "next")
    assert [len(each) for each in seen] == [40, 40, 10]
    assert [each for page in seen for each in page] == [(n, f"a-{n}") for n in range(1, 91)]
    for expected in reversed(seen[:-1]):
        back = _linked(page, "prev")
        assert back is not None
        page = (await browser.get(back)).text
        assert _numbered(page) == expected


def _linked(html: str, rel: str) -> str | None:
    found = re.search(rf'<a[^>]*rel="{rel}"[^>]*>', html)
    where = found and re.search(r'href="([^"]+)"', found[0])
    return where[1].replace("&amp;", "&") if where else None


def _main(html: str) -> str:
    return html.partition("<main")[2]
