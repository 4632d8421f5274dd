"""What the console says of a run's tools: the chain of an action in words and lines, lists, and what is not known."""

import re
from collections.abc import AsyncIterator
from html import unescape
from typing import Any

import httpx
import pytest
import pytest_asyncio

from console import words
from console.lens_words import ROWS
from policies.chain import Row
from policies.kinds import Role
from policies.reasons import Reason
from store.ids import ScopeId
from store.services.erasures import WholeRun
from store.services.holds import OnRun
from store.services.keys import COMMAND_LINE
from tests.support.console import Browser
from tests.support.databases import clone_of
from tests.support.factories import Run
from tests.support.facts import classic, coverage, delivery, seen, stage, surface
from tests.support.hall import Hall
from tests.support.hall import hall as opened

pytestmark = pytest.mark.asyncio(loop_scope="module")

LISTS = ("actions", "surface", "coverage", "delivery")
ANSWER = (
    "One external dispatch, succeeded; the view is the first five rows; request 8 carries only the reference, "
    "request 9 carries those five rows; the source was not read whole; two occurrences, one execution."
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hall(
    postgres_url: str, template_database: str, valkey_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Hall]:
    async with (
        clone_of(postgres_url, template_database) as url,
        opened(url, valkey_url, tmp_path_factory.mktemp("hall")) as made,
    ):
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reviewer(hall: Hall) -> Browser:
    return await hall.enter(Role.REVIEWER)


async def told(hall: Hall, *facts: dict[str, Any]) -> Run:
    """Declare a run, and tell facts of its tools."""
    house = hall.desk.shelf.house
    run = await house.declare()
    await hall.desk.shelf.persist([house.fact(run, each) for each in facts])
    return run


def words_of(answer: httpx.Response, status: int = httpx.codes.OK) -> str:
    """Return what a page says, without its elements and pictures."""
    assert answer.status_code == status, answer.text
    main = re.search(r"<main.*?</main>", answer.text, re.DOTALL)
    assert main
    text = re.sub(r'<svg class="picture.*?</div>|<svg.*?</svg>', " ", main[0], flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)))


def rows(answer: httpx.Response) -> list[str]:
    """Return the words of each row of a page's tables."""
    found = re.findall(r"<tr data-row.*?</tr>", answer.text, re.DOTALL)
    return [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", each)).strip() for each in found]


def picture(answer: httpx.Response, look: str = "for-wide") -> str:
    (found,) = re.findall(
        rf'<svg class="picture chain {look}".*?(?=<svg class="picture|</div>)', answer.text, re.DOTALL
    )
    return str(found)


# --- the chain


async def test_the_classic_answer_is_read_on_the_page_of_its_action(hall: Hall, reviewer: Browser) -> None:
    run = await told(hall, *classic())
    page = await reviewer.get(f"/runs/{run.run}/actions/a-1")
    text = words_of(page)
    assert ANSWER in text
    assert ROWS[Row.CUT].of_action in text
    assert ROWS[Row.CUT].advice in text
    assert re.findall(r'<tr data-row data-lens="(\w+)"', page.text) == ["reference_only", "cut"]
    assert "At 3: only the reference, version 1, bound to the result" in text
    assert "At 3: rows 0 to 5 of 120, version 1, bound to the result" in text
    assert "rows 0 to 5 of 120 1 not read whole" in rows(page)
    stages = ("Admission admitted", "Execution started", "Execution succeeded", "Reservation settled")
    assert all(any(row.startswith(each) for row in rows(page)) for each in stages)


async def test_the_picture_says_what_the_sentence_says_and_leads_to_requests_that_are_there(
    hall: Hall, reviewer: Browser
) -> None:
    run = await told(hall, *classic())
    house = hall.desk.shelf.house
    await hall.desk.shelf.persist([house.state(run, exchange="x-9", attempt="1")])
    page = await reviewer.get(f"/runs/{run.run}/actions/a-1")
    there = f"/runs/{run.run}/exchanges/x-9/attempts/1"
    for look in ("for-wide", "for-narrow"):
        drawn = picture(page, look)
        assert f'aria-label="Chain: {ANSWER}"' in drawn
        assert re.findall(r'<a href="([^"]+)"', drawn) == [there]
        assert re.findall(r'class="carry ([\w-]+)"', drawn) == ["is-held", "is-reference", "is-held"]
        assert "Request 9, x-9 / 1: rows 0 to 5 of 120. Cut." in drawn
    assert (await reviewer.get(there)).status_code == httpx.codes.OK
    # What the store knows nothing of is said, and leads nowhere.
    assert "x-8 / 1 nothing of it is recorded here" in words_of(page)
    assert page.text.count(f'href="{there}"') == 3


@pytest.mark.parametrize(
    ("facts", "row", "executions"),
    [
        ([stage("a", "admission", "refused", code="denied")], Row.REFUSED_BEFORE_CALL, "0"),
        ([stage("a", "execution", "timed_out", execution=2)], Row.EXECUTION_FAILED, "2"),
        (
            [stage("a", "execution", "succeeded", execution=1), stage("a", "projection", "failed")],
            Row.PROJECTION_FAILED,
            "1",
        ),
        ([stage("a", "execution", "succeeded"), seen("x", "a", "reference")], Row.REFERENCE_ONLY, "1"),
        ([stage("a", "execution", "succeeded"), seen("x", "a", "omitted")], Row.LINEAGE_MISSING, "1"),
        ([stage("a", "execution", "succeeded"), seen("x", "a", "partial")], Row.CUT, "1"),
        ([stage("a", "execution", "succeeded"), seen("x", "a", "full")], Row.CARRIED, "1"),
        ([stage("a", "admission", "admitted")], Row.NOT_RECORDED, "not recorded"),
    ],
)
async def test_each_row_of_the_table_is_said_with_what_to_look_at_first(
    hall: Hall, reviewer: Browser, facts: list[dict[str, Any]], row: Row, executions: str
) -> None:
    run = await told(hall, *facts)
    alone = await reviewer.get(f"/runs/{run.run}/actions/a")
    assert f'class="note {ROWS[row].level}" data-lens="{row}"' in alone.text
    for said in (ROWS[row].of_action, ROWS[row].advice):
        assert said in words_of(alone)
        assert said in words_of(await reviewer.get(f"/runs/{run.run}/actions"))
    assert f"Executions {executions}" in words_of(alone)


async def test_what_is_bound_to_nothing_has_no_line_and_is_named_as_that(
    hall: Hall, reviewer: Browser
) -> None:
    run = await told(
        hall,
        stage("a", "execution", "succeeded", execution=1, call_id="call_1"),
        stage("a", "projection", "projected", execution=1, view={"form": "full"}, call_id="call_1"),
        seen("x-1", None, link="replaced", call_id="call_1"),
    )
    page = await reviewer.get(f"/runs/{run.run}/actions/a")
    assert "request 1 holds something of its call that is bound to nothing" in words_of(page)
    assert "At 0: the whole result, of a result that was replaced" in words_of(page)
    assert "no occurrences, one execution" in words_of(page)
    # From the execution to the view, and to no request.
    assert picture(page).count('class="carry') == 1


async def test_a_view_is_joined_with_its_own_execution_or_with_none(hall: Hall, reviewer: Browser) -> None:
    executed = [
        stage("a", "execution", "failed", execution=1, code="busy"),
        stage("a", "execution", "succeeded", execution=2, duration_ms=7),
        stage("a", "execution", "succeeded", execution=3),
    ]
    part = {"form": "partial", "unit": "bytes", "start": 10, "stop": 4000, "source_whole": True}
    run = await told(hall, *executed, stage("a", "projection", "projected", view=part, result_version=9))
    page = await reviewer.get(f"/runs/{run.run}/actions/a")
    drawn = picture(page)
    assert 'class="carry' not in drawn
    for box in (
        "Execution 1: failed: busy",
        "Execution 2: succeeded, 7 ms",
        "Bytes 10 to 4,000: version 9, source read whole",
    ):
        assert f"<title>{box}</title>" in drawn
    assert (
        "Three external dispatches, succeeded; the view is bytes 10 to 4,000; the source was read whole"
        in words_of(page)
    )
    named = await told(hall, *executed, stage("a", "projection", "projected", view=part, execution=3))
    assert picture(await reviewer.get(f"/runs/{named.run}/actions/a")).count('class="carry') == 1


async def test_a_replay_is_drawn_and_is_no_execution(hall: Hall, reviewer: Browser) -> None:
    run = await told(
        hall,
        stage("a", "execution", "succeeded", execution=1),
        stage("a", "replay", "replayed", result_version=1),
    )
    page = await reviewer.get(f"/runs/{run.run}/actions/a")
    assert "<title>Replayed: from its receipt, not executed again</title>" in picture(page)
    assert "one execution" in words_of(page)


async def test_nothing_recorded_of_an_action_is_not_that_it_did_not_happen(
    hall: Hall, reviewer: Browser
) -> None:
    run = await told(hall, *classic())
    page = await reviewer.get(f"/runs/{run.run}/actions/never")
    text = words_of(page, httpx.codes.NOT_FOUND)
    assert "Nothing was recorded of that action, which does not say that it did not happen." in text
    assert 'data-lens="not_recorded"' in page.text
    # Of a run that is not there, nothing of the kind is said.
    gone = await reviewer.get("/runs/never/actions/never")
    assert gone.status_code == httpx.codes.NOT_FOUND
    assert "recorded of that action" not in gone.text


async def test_requests_and_stages_are_paged_without_skipping_or_repeating(
    hall: Hall, reviewer: Browser
) -> None:
    # One number for some: the exchange and the attempt tell them apart.
    requests = [seen(f"x-{n:02}", "a", request=n // 3 + 1, attempt="1" if n % 2 else None) for n in range(29)]
    stages = [stage("a", "execution", "failed", execution=n) for n in range(1, 60)]
    run = await told(hall, *requests[:1], *stages[:59], *requests[1:])
    address = f"/runs/{run.run}/actions/a"
    for part, wanted in (
        ("requests", [f"x-{n:02}" for n in range(29)]),
        ("stages", [str(n) for n in range(1, 60)]),
    ):
        found: list[str] = []
        path: str | None = address
        while path is not None:
            page = await reviewer.get(path)
            section = re.search(rf'<section id="{part}".*?</section>', page.text, re.DOTALL)
            assert section
            pattern = (
                r'data-label="Attempt">(x-\d+)' if part == "requests" else r'data-label="Execution">(\d+)'
            )
            found += re.findall(pattern, section[0])
            following = re.search(r'rel="next" data-next href="([^"]+)"', section[0])
            path = unescape(following[1]).partition("#")[0] if following else None
        assert found == wanted
    assert "17 more on other pages" in picture(await reviewer.get(address))
    assert "55 earlier ones are told below" in picture(await reviewer.get(address))


@pytest.mark.parametrize(
    "asked", ["after=1", "after=one/x/1", "stages=..", "cursor=x", "after=1/x/1&after=2/x/1"]
)
async def test_what_is_no_place_in_a_page_is_refused(hall: Hall, reviewer: Browser, asked: str) -> None:
    run = await told(hall, *classic())
    assert (await reviewer.get(f"/runs/{run.run}/actions/a-1?{asked}")).status_code == httpx.codes.BAD_REQUEST


# --- lists


async def test_each_list_says_what_was_told_in_words(hall: Hall, reviewer: Browser) -> None:
    differences = [
        {"change": "renamed", "tool": "find<b>", "now": "fetch"},
        {"change": "schema", "tool": "read", "at": "/properties/path"},
    ]
    run = await told(
        hall,
        surface("x-1", "mismatch", attempt="1", more=2, differences=differences),
        surface("x-2", "match", check="early"),
        coverage(
            "f", 3998, ranges=[[0, 3998], [7998, 9000]], size=9000, one_version=False, deviations=["skipped"]
        ),
        coverage("g", 5, whole=True, action="a-9"),
        delivery("report", "failed", kind="command", exit_code=-9, code="exit"),
        delivery("table", "met", size=12_345, action="a-9"),
    )
    mismatch, match = rows(await reviewer.get(f"/runs/{run.run}/surface"))
    assert "x-1 / 1 before the request leaves Mismatch The tools are not those that were admitted" in mismatch
    assert "find&lt;b&gt; : renamed, now fetch" in mismatch
    assert "read : another schema at /properties/path and 2 more" in mismatch
    assert "x-2 after extensions Match" in match
    gap, whole = rows(await reviewer.get(f"/runs/{run.run}/coverage"))
    assert "f not read whole 3,998 of 9,000 0 to 3,998; 7,998 to 9,000" in gap
    assert (
        "of no single version: the file changed between its pages; an offset was skipped not recorded" in gap
    )
    assert "g read whole 5, size not recorded none named nothing a-9" in whole
    failed, met = rows(await reviewer.get(f"/runs/{run.run}/delivery"))
    assert (
        "report a command Failed It was looked at, and does not hold. exit not recorded -9 not recorded"
        in failed
    )
    assert "table a file Met It is there, and of this task. no code 12,345 bytes none a-9" in met
    # An action that only they name has its page too, on which nothing else is known.
    page = await reviewer.get(f"/runs/{run.run}/actions/a-9")
    assert (
        "Execution not recorded; no view was recorded; no occurrences, executions not recorded."
        in words_of(page)
    )
    for part in ("coverage", "delivery"):
        link = f"/runs/{run.run}/{part}?action=a-9"
        assert f'href="{link}"' in page.text
        assert len(rows(await reviewer.get(link))) == 1


async def test_lists_lead_to_their_next_pages_and_back_to_the_first(hall: Hall, reviewer: Browser) -> None:
    many = 45
    run = await told(
        hall,
        *(stage(f"a-{n:02}", "execution", "started") for n in range(many)),
        *(surface(f"x-{n:02}") for n in range(many)),
        *(coverage(f"f-{n:02}", n) for n in range(many)),
        *(delivery(f"i-{n:02}", "met") for n in range(many)),
    )
    for part, letter in zip(LISTS, "axfi", strict=True):
        first = f"/runs/{run.run}/{part}"
        found, path, page = [], first, await reviewer.get(first)
        while path:
            page = await reviewer.get(path)
            found += [row.split()[0] for row in rows(page)]
            following = re.search(r'rel="next" data-next href="([^"]+)"', page.text)
            path = unescape(following[1]) if following else ""
        assert found == [f"{letter}-{n:02}" for n in range(many)]
        assert f'<a data-previous href="{first}">First page</a>' in page.text
        assert (await reviewer.get(f"{first}?cursor=AAAA")).status_code == httpx.codes.BAD_REQUEST
        assert (await reviewer.get(f"{first}?order=newest")).status_code == httpx.codes.BAD_REQUEST


async def test_names_that_somebody_else_wrote_are_text_on_every_page(hall: Hall, reviewer: Browser) -> None:
    bad, hidden = "<script>alert(1)</script>", "read\u202etxt"
    run = await told(
        hall,
        stage("a", "execution", "succeeded", execution=1, call_id=bad) | {"tool": hidden},
        surface("x", "mismatch", differences=[{"change": "added", "tool": bad, "at": bad}]),
    )
    for path in ("actions", "actions/a", "surface"):
        page = await reviewer.get(f"/runs/{run.run}/{path}")
        assert "<script>alert" not in page.text
        assert "&lt;script&gt;" in page.text
        assert "\u202e" not in page.text
    assert "U+202E" in (await reviewer.get(f"/runs/{run.run}/actions")).text


# --- runs


async def test_a_run_leads_to_what_was_told_of_its_tools(hall: Hall, reviewer: Browser) -> None:
    run = await told(
        hall, *classic(), surface("x-9"), coverage("f", 1), coverage("f", 2), delivery("r", "met")
    )
    page = await reviewer.get(f"/runs/{run.run}")
    for part, name in zip(
        LISTS, ("Actions (1)", "Tools offered (1)", "Files read (2)", "Delivery (1)"), strict=True
    ):
        assert f'<a href="/runs/{run.run}/{part}">{name}</a>' in page.text
        assert f'aria-current="page">{name}</a>' in (await reviewer.get(f"/runs/{run.run}/{part}")).text


async def test_a_run_of_which_no_fact_was_told_says_so_and_not_that_no_tool_was_used(
    hall: Hall, reviewer: Browser
) -> None:
    run = await told(hall)
    text = words_of(page := await reviewer.get(f"/runs/{run.run}"))
    assert "Nothing was recorded of what this run's tools did. That does not say that none was used" in text
    assert f"/runs/{run.run}/actions" not in page.text
    for part in LISTS:
        assert "That does not say that" in words_of(await reviewer.get(f"/runs/{run.run}/{part}"))


async def test_an_erased_run_shows_none_of_it_from_that_moment(hall: Hall, reviewer: Browser) -> None:
    run = await told(hall, *classic())
    await hall.running.services.erasures.ask(ScopeId(run.scope), WholeRun(run.run), COMMAND_LINE)
    await closed(hall, reviewer, run, Reason.ERASED, httpx.codes.GONE)


async def test_when_the_retention_is_over_only_a_hold_keeps_it_and_only_for_custodians(
    hall: Hall, reviewer: Browser
) -> None:
    run = await told(hall, *classic())
    await hall.desk.shelf.house.execute("UPDATE runs SET retain_until = now() WHERE run = $1", run.run)
    await closed(hall, reviewer, run, Reason.RETENTION_EXPIRED, httpx.codes.GONE)
    await hall.running.services.holds.place(ScopeId(run.scope), OnRun(run.run), "a case", COMMAND_LINE)
    await closed(hall, reviewer, run, Reason.EXPIRED_HELD, httpx.codes.FORBIDDEN)
    custodian = await hall.enter(Role.CUSTODIAN)
    assert ANSWER in words_of(await custodian.get(f"/runs/{run.run}/actions/a-1"))


async def closed(hall: Hall, browser: Browser, run: Run, reason: Reason, status: int) -> None:
    """Every page says why, with the status that the api answers, and the run leads to none of them."""
    said = words.at_read(reason)
    for part in (*LISTS, "actions/a-1", "actions/never"):
        page = await browser.get(f"/runs/{run.run}/{part}")
        text = words_of(page, status)
        assert f'data-reason="{reason}"' in page.text
        assert all(each in text for each in (said.name, said.sentence, said.advice))
        assert "read_table" not in page.text
    page = await browser.get(f"/runs/{run.run}")
    assert f"What was told of this run's tools cannot be read now. {said.sentence}" in words_of(page)
    assert f"/runs/{run.run}/actions" not in page.text


async def test_a_full_run_says_on_every_page_that_later_facts_are_not_there(
    hall: Hall, reviewer: Browser
) -> None:
    run = await told(hall, *classic())
    said = "This run has as many facts as a run may have: what was told later is not here."
    paths = [f"/runs/{run.run}/{part}" for part in (*LISTS, "actions/a-1")]
    assert [path for path in paths if said in (await reviewer.get(path)).text] == []
    await hall.desk.shelf.house.execute("UPDATE fact_runs SET is_full = true WHERE run_uid = $1", run.run_uid)
    assert [path for path in paths if said in (await reviewer.get(path)).text] == paths
