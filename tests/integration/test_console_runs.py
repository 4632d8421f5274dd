"""Finding a run on the console, and what its pages say of it; of another scope nothing, not even that it is there."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from policies.kinds import Role
from store.commitments import lookup_hash
from tests.support.duties import new_scope
from tests.support.hall import Hall, hall


@pytest.fixture
async def opened(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[Hall]:
    async with hall(database_url, redis_url, tmp_path) as made:
        yield made


async def test_a_run_is_found_by_its_id_and_by_that_of_a_part(opened: Hall) -> None:
    run, evidence = await opened.part(b"what was given")
    browser = await opened.enter(Role.REVIEWER)
    for asked, led in ((run, f"/runs/{run}"), (str(evidence), f"/parts/{evidence}")):
        answer = await browser.get(f"/runs/find?q={asked}")
        assert (answer.status_code, answer.headers["location"]) == (303, led)
    assert f'<option value="{run}">' in (await browser.get(f"/runs/suggest?q={run[:3]}")).text
    assert (await browser.get("/runs/find?q=nothing-like-it")).status_code == 404


async def test_a_run_is_found_by_a_reference_that_attempts_carry(opened: Hall) -> None:
    shelf = opened.desk.shelf
    house, run = shelf.house, await shelf.house.declare()
    one, several = (
        lookup_hash(house.keyring.token_key("lookup"), "ref", run.scope, text)
        for text in (b"trace-one", b"trace-several")
    )
    await shelf.persist([house.state(run, exchange=f"x-{n}", refs=[several]) for n in range(2)])
    await shelf.persist([house.state(run, exchange="x-0", refs=[one])])
    browser = await opened.enter(Role.REVIEWER)
    alone = await browser.get("/runs/find?q=trace-one")
    assert alone.headers["location"].startswith(f"/runs/{run.run}/exchanges/x-0/attempts/")
    shown = await browser.get("/runs/find?q=trace-several")
    assert shown.status_code == 200
    assert all(f'href="/runs/{run.run}/exchanges/x-{n}/attempts/' in shown.text for n in range(2))
    stranger = await opened.enter(Role.REVIEWER, await house.add_scope())
    assert (await stranger.get("/runs/find?q=trace-one")).status_code == 404


async def test_a_list_of_runs_leads_to_the_file_of_the_same_filters(opened: Hall) -> None:
    run, _ = await opened.part(b"what was given")
    browser = await opened.enter(Role.AUDITOR)
    shown = await browser.get("/runs?outcome=stored&from=2020-01-01T00:00:00&reason=")
    for form in ("csv", "jsonl"):
        link = f"/lists/runs/{form}?from=2020-01-01T00%3A00%3A00&outcome=stored"
        assert f'href="{link.replace("&", "&amp;")}"' in shown.text
        assert run in (await browser.get(link)).text


async def test_a_list_is_narrowed_by_its_address_and_shows_no_content(opened: Hall) -> None:
    run, _ = await opened.part(b"what was given")
    browser = await opened.enter(Role.AUDITOR)
    there = await browser.get("/runs?outcome=stored&mode=normal")
    assert f'href="/runs/{run}"' in there.text
    assert "what was given" not in there.text
    assert f'href="/runs/{run}"' not in (await browser.get("/runs?outcome=not_captured")).text
    assert (await browser.get("/runs?outcome=unheard-of")).status_code == 400


async def test_a_run_shows_its_attempts_in_a_picture_and_in_words(opened: Hall) -> None:
    run, evidence = await opened.part(b"what was given")
    browser = await opened.enter(Role.REVIEWER)
    shown = await browser.get(f"/runs/{run}")
    assert shown.status_code == 200
    assert f'href="/parts/{evidence}"' in shown.text
    assert 'role="img"' in shown.text
    assert "Not known yet: the run is not closed" in shown.text
    assert "what was given" not in shown.text
    exchange = shown.text.partition(f"/runs/{run}/exchanges/")[2].partition('"')[0].partition("/")[0]
    assert (await browser.get(f"/runs/{run}/exchanges/{exchange}")).status_code == 200
    assert "Nothing is missing" in (await browser.get(f"/runs/{run}/gaps")).text


async def test_another_scopes_run_is_the_same_as_none(opened: Hall, database_url: str) -> None:
    run, _ = await opened.part(b"what was given")
    stranger = await opened.enter(Role.REVIEWER, await new_scope(database_url))
    for path in (f"/runs/{run}", f"/runs/{run}/gaps", f"/runs/{run}/exchanges/x"):
        foreign, none = await stranger.get(path), await stranger.get(path.replace(run, "no-such-run"))
        assert (foreign.status_code, none.status_code) == (404, 404)
