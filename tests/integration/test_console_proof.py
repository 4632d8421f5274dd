"""A part's page, the accesses and the proof log in the console: what they show, to whom, and what they never do."""

import csv
import io
import json
import re
from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio

from console.pages import lists
from policies.kinds import Role
from tests.support.databases import clone_of
from tests.support.hall import SIGNED_IN, Hall
from tests.support.hall import hall as opened
from tests.support.writers import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hall(
    postgres_url: str, template_database: str, valkey_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Hall]:
    async with (
        clone_of(postgres_url, template_database) as url,
        opened(url, valkey_url, tmp_path_factory.mktemp("hall")) as made,
    ):
        yield made


def proof_state(text: str) -> str:
    found = re.search(r'data-proof="(\w+)"', text)
    assert found, text
    return found[1]


async def test_a_part_tells_how_it_stands_and_never_its_content(hall: Hall):
    run, evidence = await hall.part(b"never on this page")
    reviewer = await hall.enter(Role.REVIEWER)
    pending = (await reviewer.get(f"/parts/{evidence}")).text
    await hall.desk.publish()
    shown = (await reviewer.get(f"/parts/{evidence}")).text

    assert (proof_state(pending), proof_state(shown)) == ("pending", "verified")
    assert "There is no proof yet" in pending
    assert 'data-availability="readable"' in shown
    assert f'href="/runs/{run}"' in shown
    assert f'href="/runs/{run}/exchanges/exchange-1/attempts/attempt-1"' in shown
    assert "never on this page" not in shown
    assert "$CUSTODY_TOKEN" in shown.replace("&#34;", '"')
    assert f"/v1/parts/{evidence}" in shown


async def test_proof_leaf_and_checkpoint_are_what_the_api_gives(hall: Hall):
    _, evidence = await hall.part()
    await hall.desk.publish()
    reviewer = await hall.enter(Role.REVIEWER)
    key = await hall.desk.shelf.key(Role.REVIEWER)
    proof = await hall.desk.shelf.get(f"/v1/log/proof/{evidence}", key)
    given = await reviewer.get(f"/parts/{evidence}/proof")
    checkpoint = await reviewer.get("/log/checkpoint")

    assert given.content == proof.content
    assert given.headers["content-disposition"].startswith("attachment")
    assert checkpoint.content == await hall.desk.checkpoint()
    page = (await reviewer.get(f"/parts/{evidence}")).text
    assert given.text.split("\n")[1].removeprefix("index ") in page


async def test_a_part_that_was_changed_is_said_to_have_failed(hall: Hall):
    _, evidence = await hall.part()
    await hall.desk.publish()
    house = hall.desk.shelf.house
    await house.execute("UPDATE parts SET media_type = 'text/html' WHERE evidence = $1", evidence)
    shown = (await (await hall.enter(Role.REVIEWER)).get(f"/parts/{evidence}")).text
    assert proof_state(shown) == "failed"


async def test_another_scopes_part_is_the_same_as_none(hall: Hall):
    _, evidence = await hall.part()
    await hall.desk.publish()
    other = await hall.enter(Role.REVIEWER, await hall.desk.shelf.house.add_scope())
    none = uuid4()
    for path in ("/parts/{}", "/parts/{}/proof", "/parts/{}/leaf"):
        theirs, nothing = [await other.get(path.format(each)) for each in (evidence, none)]
        assert theirs.status_code == nothing.status_code == httpx.codes.NOT_FOUND
        assert theirs.text.replace(str(evidence), "") == nothing.text.replace(str(none), "")


async def test_who_may_open_what_is_as_in_the_api(hall: Hall):
    """Each page and each file, for each role that signs in."""
    _, evidence = await hall.part()
    await hall.desk.publish()
    everybody = set(SIGNED_IN)
    provers, of_accesses = everybody - {Role.OPERATOR}, everybody - {Role.REVIEWER}
    table = {
        f"/parts/{evidence}": everybody,
        f"/parts/{evidence}/proof": provers,
        f"/parts/{evidence}/leaf": provers,
        "/log": everybody,
        "/log/checkpoint": everybody,
        "/accesses": of_accesses,
        "/exports": provers,
        "/lists/runs/csv": everybody,
        "/lists/parts/jsonl": everybody,
        "/lists/accesses/csv": of_accesses,
    }
    for role in SIGNED_IN:
        browser = await hall.enter(role)
        for path, allowed in table.items():
            status = (await browser.get(path)).status_code
            assert status == (httpx.codes.OK if role in allowed else httpx.codes.FORBIDDEN), (role, path)
        shown = (await browser.get(f"/parts/{evidence}")).text
        assert ("Who read it" in shown, "Inclusion proof" in shown) == (role in of_accesses, role in provers)


async def test_accesses_are_paged_and_filtered_by_the_address(hall: Hall):
    _, evidence = await hall.part()
    _, other = await hall.part()
    await hall.desk.publish()
    for number in range(3):
        await hall.read(evidence, f"case {number}")
    await hall.read(other, "not this", Role.AUDITOR)
    auditor = await hall.enter(Role.AUDITOR)
    first = (await auditor.get("/accesses", evidence=str(evidence), limit="2")).text
    following = re.search(r'rel="next" data-next href="([^"]+)"', first)
    assert following
    second = (await auditor.get(following[1].replace("&amp;", "&"))).text
    of_part = (await auditor.get(f"/parts/{other}")).text

    assert [len(re.findall("data-row", page)) for page in (first, second)] == [2, 1]
    assert all(f"case {number}" in page for page, number in ((first, 2), (first, 1), (second, 0)))
    assert "not this" not in first + second
    assert ("not this" in of_part, "Permission denied" in of_part) == (True, True)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("evidence=x", "named by its evidence reference"),
        ("evidence=01a22ad8-cdba-70ae-a8b5-a51074dbcd0e&key_id=k", "offered alone"),
        ("from=yesterday", "from is not a time"),
        ("order=up", "order is newest or oldest"),
        ("limit=0", "limit is 1 to 200"),
        ("colour=red", "this call takes"),
        ("key_id=a&key_id=b", "each at most once"),
    ],
)
async def test_what_is_no_question_is_said_beside_the_form(hall: Hall, query: str, said: str):
    answer = await (await hall.enter(Role.AUDITOR)).get(f"/accesses?{query}")
    assert (answer.status_code, said in answer.text) == (httpx.codes.BAD_REQUEST, True)
    assert '<form class="filters roomy"' in answer.text


async def test_times_without_an_offset_are_utc(hall: Hall):
    _, evidence = await hall.part()
    await hall.read(evidence, "in time")
    auditor = await hall.enter(Role.AUDITOR)
    for begin, shown in (
        ("2020-01-01T00:00", True),
        ("2999-01-01T00:00", False),
        ("2020-01-01T00:00+02:00", True),
    ):
        text = (await auditor.client.get("/accesses", params={"evidence": str(evidence), "from": begin})).text
        assert ("in time" in text) == shown, begin
    assert 'value="2019-12-31T22:00:00"' in text


async def test_while_the_log_is_stopped_its_page_says_so_and_shows_no_checkpoint(hall: Hall):
    await hall.part()
    await hall.desk.publish()
    reviewer = await hall.enter(Role.REVIEWER)
    before = await reviewer.get("/log")
    house = hall.desk.shelf.house
    await house.execute("UPDATE log_state SET stop = 'forked', stopped_at = '2026-11-29T10:00Z'")
    try:
        page = await reviewer.get("/log")
    finally:
        await house.execute("UPDATE log_state SET stop = NULL, stopped_at = NULL")
    checkpoint = (await hall.desk.checkpoint()).decode().splitlines()[2]

    async def shown_again() -> bool:
        return checkpoint in (await reviewer.get("/log")).text

    # A process hears within a second that reads are open; nor may the next test meet what it heard before.
    await until(shown_again)
    again = await reviewer.get("/log")

    assert 'data-log="open"' in before.text
    assert (page.status_code, 'data-log="forked"' in page.text) == (httpx.codes.OK, True)
    assert "2026-11-29 10:00:00 UTC" in page.text
    assert 'data-reason="reads_closed"' in page.text
    assert "evidence.example/log/1\n" not in page.text
    assert 'data-log="open"' in again.text
    assert checkpoint in again.text


async def test_lists_are_files_with_the_filters_of_their_pages(hall: Hall, monkeypatch: pytest.MonkeyPatch):
    run, evidence = await hall.part()
    _, other = await hall.part()
    for number in range(3):
        await hall.read(evidence, f"=case {number}")
    await hall.read(other, "not this", Role.AUDITOR)
    auditor = await hall.enter(Role.AUDITOR)
    given = {
        form: await auditor.get(f"/lists/accesses/{form}", evidence=str(evidence), order="oldest")
        for form in ("csv", "jsonl")
    }
    rows = list(csv.DictReader(io.StringIO(given["csv"].text)))
    assert [row["purpose"] for row in rows] == [f"'=case {number}" for number in range(3)]
    same = [json.loads(line) for line in given["jsonl"].text.splitlines()]
    assert [row["purpose"] for row in same] == [f"=case {number}" for number in range(3)]
    assert [row["access_id"] for row in same] == [row["access_id"] for row in rows]
    assert "attachment" in given["csv"].headers["content-disposition"]

    parts = (await auditor.get("/lists/parts/csv", run=run)).text
    runs = [json.loads(line) for line in (await auditor.get("/lists/runs/jsonl")).text.splitlines()]
    assert [row["evidence"] for row in csv.DictReader(io.StringIO(parts))] == [str(evidence)]
    assert run in {each["run_id"] for each in runs}

    monkeypatch.setattr(lists, "MOST", 1)
    whole = (await auditor.get("/lists/accesses/csv", evidence=str(evidence), order="oldest")).text
    monkeypatch.setattr(lists, "MOST_ROWS", 2)
    cut = (await auditor.get("/lists/accesses/csv", evidence=str(evidence), order="oldest")).text
    assert whole == given["csv"].text
    assert cut.splitlines()[:3] == whole.splitlines()[:3]
    assert cut.splitlines()[3:] == ['"cut after 2 rows: more follow, narrow the list"']
    for path, status in (
        ("/lists/accesses/xls", 404), ("/lists/parts/csv?kind=x", 400), ("/lists/runs/csv?mode=x", 400),
        ("/lists/parts/csv?availability=x", 400), ("/lists/accesses/csv?colour=red", 400),
        ("/lists/parts/csv?label=%00", 400), ("/lists/runs/csv?label=%00", 400), ("/runs?label=%00", 400),
        ("/lists/parts/csv?label=a%3D%C3%A9", 200),
    ):  # fmt: skip
        assert (await auditor.get(path)).status_code == status, path
