"""No page of the console asks the database a question for each row: as many statements, however much there is.

Statements are counted where the driver sends them, without those by which what is known for some seconds is read again.
That somebody uses a session or a key is noted now and then, by whichever page comes first: of several tries the one
with the fewest counts. Reading content writes one access record for each part that is read, and that is meant; the
records of one read are one statement.
"""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

import httpx
import pytest
import pytest_asyncio

from policies.kinds import Role
from policies.reasons import Reason
from store.commitments import lookup_hash
from store.db import SERVICE_ROLE, Database
from store.ids import ScopeId
from store.queue import Entry
from store.services.erasures import WholeRun
from store.services.holds import OnRun
from store.services.keys import COMMAND_LINE
from store.services.last_known import LastKnown
from tests.support import factories
from tests.support.api import settings_for
from tests.support.console import Browser, Running, console, form_token
from tests.support.databases import clone_of
from tests.support.exporting import ORIGIN, Desk, office
from tests.support.factories import Run
from tests.support.facts import coverage, delivery, seen, stage, surface
from tests.support.pages import PAGES, filled
from tests.support.statements import listening

in_module = pytest.mark.asyncio(loop_scope="module")
pytestmark = pytest.mark.timeout(300)

ROLES = (Role.REVIEWER, Role.AUDITOR, Role.OPERATOR)
# What only leads elsewhere.
LEADING = {"/"}
# What all attempts of the run carry.
TRACE = "trace-of-all"
TRIES = 5
# Fewer than are drawn one by one: beyond, a page asks for stretches of time in their place, however many there are.
FEW, MANY = 2, 36
CONDENSED = (60, 240)

Statements = Counter[str]


class Page(NamedTuple):
    """A page as somebody opens it; no role: an operator of the whole store who has chosen no scope."""

    role: Role | None
    route: str
    narrowed: str


# Pages that ask more once they are narrowed.
NARROWED = {
    "/runs": ("outcome=stored", "reason=write_failed", "label=team", "state=open"),
    "/runs/find": (f"q={TRACE}", "q=run-", "q={evidence}"),
    "/runs/suggest": ("q=r",),
    "/runs/{run:str}/compare": ("left=exchange-1/attempt-0&right=exchange-1/attempt-0",),
    "/accesses": ("evidence={evidence}",),
    "/lists/parts/{form:str}": ("run={run}", "availability=readable"),
    "/lists/runs/{form:str}": ("outcome=stored",),
    "/desk/completeness": ("days=31",),
    "/runs/{run:str}/surface": ("exchange=exchange-1",),
    "/runs/{run:str}/coverage": ("action={action}",),
    "/runs/{run:str}/delivery": ("action={action}",),
}


@dataclass(slots=True)
class Town:
    """A console whose statements are heard, over a scope that can grow."""

    desk: Desk
    running: Running
    heard: list[str]
    browsers: dict[Role | None, Browser] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    run: Run | None = None

    @property
    def scope(self) -> ScopeId:
        return ScopeId(self.desk.shelf.house.scope)

    def path(self, route: str, narrowed: str = "") -> str:
        """Fill in a page's address; one with a name that nobody filled in is a page that is not in this test yet."""
        path = filled(route, self.named)
        return f"{path}?{narrowed.format(**self.named)}" if narrowed else path

    async def asks(self, browser: Browser, path: str) -> tuple[Statements, httpx.Response]:
        """Open a page; return what it asked the database."""
        del self.heard[:]
        answer = await browser.get(path)
        return Counter(self.heard), answer

    async def fewest(self, browser: Browser, path: str, expected: Statements | None = None) -> Statements:
        """Open a page some times, or until it asks what is expected; return the fewest statements of any time."""
        found: list[Statements] = []
        while len(found) < TRIES and (expected is None or expected not in found):
            found.append((await self.asks(browser, path))[0])
        return min(found, key=Counter.total) if expected not in found else expected

    async def reached(self) -> dict[Page, Statements]:
        """Open every page in every role; return those that it reaches, with what each asks the database."""
        found = {}
        for role, browser in self.browsers.items():
            for route in PAGES:
                for narrowed in ("", *NARROWED.get(route, ())):
                    path = self.path(route, narrowed)
                    _, answer = await self.asks(browser, path)
                    assert answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR, (role, path)
                    if answer.status_code == httpx.codes.OK or (route in LEADING and answer.is_redirect):
                        found[Page(role, route, narrowed)] = await self.fewest(browser, path)
        return found


def exchange(number: int) -> str:
    """Every third attempt belongs to the first exchange."""
    return "exchange-1" if number % 3 == 0 else f"exchange-{number}"


async def grow(town: Town, first: int, end: int) -> None:
    """Make everything from one number to another: parts, gaps and attempts of the run, and what lists show."""
    house, running, scope = town.desk.shelf.house, town.running, town.scope
    assert town.run is not None
    entries: list[Entry] = []
    mark = lookup_hash(house.keyring.token_key("lookup"), "ref", scope, TRACE.encode())
    for number in range(first, end):
        source = f"source-{number}"
        for name in (source, "source-of-many"):
            await running.services.sources.put_version(
                scope, name, COMMAND_LINE, withdraw_earlier=False, audience=None
            )
        names: Any = {"exchange": exchange(number), "attempt": f"attempt-{number}"}
        entries.append(house.state(town.run, refs=[mark], **names))
        named: Any = {"session": f"session-{number}", "sequence": 1}
        entries.append(
            house.part(town.run, b"{}", sources=[(source, 1)], dispatch="dispatched", **names, **named)
        )
        output = (names["exchange"], names["attempt"], factories.OUTPUT)
        entries.append(
            house.gap(town.run, Reason.CLIENT_TRANSPORT, identity=output)
            if number % 3 == 1
            else house.part(town.run, b"{}", kind=factories.OUTPUT, **names)
        )
        entries.append(
            house.gap(town.run, Reason.CLIENT_QUEUE_FULL, session=f"session-{number}", first=2, last=3)
        )
        other = await house.declare()
        await house.narrow(other, labels=["team=one"])
        entries.append(house.part(other, b"{}", session="s", sequence=1))
        entries.append(house.gap(other, Reason.CLIENT_SHUTDOWN, session="s", first=2, last=9))
        gone = await house.declare()
        erased = await running.services.erasures.ask(scope, WholeRun(gone.run), COMMAND_LINE)
        held = await running.services.holds.place(scope, OnRun(other.run), "a case", COMMAND_LINE)
        town.named |= {"erasure": str(erased.erasure_id), "hold": str(held.hold_id)}
        entries += tools_of(town, number)
        await running.scope(f"scope-{number}")
        await running.key(Role.RUNTIME, scope)
        await running.key(Role.OPERATOR)
    await town.desk.shelf.persist(entries)


def tools_of(town: Town, number: int) -> list[Entry]:
    """Let one action have more stages and more requests, and the run more actions and more of every list."""
    assert town.run is not None
    of: dict[str, Any] = {"call_id": "call-0", "request": number + 1, "attempt": f"attempt-{number}"}
    facts = [
        stage(
            "a-0", "execution", "succeeded", execution=number + 1, call_id="call-0", result_version=number + 1
        ),
        stage(f"a-{number + 1}", "admission", "refused"),
        seen(exchange(number), "a-0", position=number, **of),
        seen(exchange(number), None, link="unknown", position=1000 + number, call_id="call-0"),
        surface(f"x-{number}"),
        coverage(f"file-{number}", number, action="a-0"),
        delivery(f"item-{number}", "met", action="a-0"),
    ]
    return [town.desk.shelf.house.fact(town.run, each) for each in facts]


async def export_and_read(town: Town, evidence: UUID, times: int) -> None:
    """Let a reviewer's exports and a part's access records become more by so many."""
    browser = town.browsers[Role.REVIEWER]
    form = {
        "csrf": form_token((await browser.get("/session")).text),
        "evidence": str(evidence),
        "purpose": "a case",
    }
    for _ in range(times):
        asked = await browser.client.post("/exports", data=form)
        assert asked.status_code == httpx.codes.SEE_OTHER, asked.text
        town.named["export"] = asked.headers["location"].rpartition("/")[2]
        await browser.get(f"/parts/{evidence}/raw")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(
    postgres_url: str, template_database: str, valkey_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Town]:
    place = tmp_path_factory.mktemp("town")
    keys = place / "keys"
    keys.mkdir(mode=0o700)
    async with (
        clone_of(postgres_url, template_database) as url,
        office(url, valkey_url, keys, place) as desk,
    ):
        with listening() as heard:
            async with console(settings_for(url, valkey_url, keys, log_origin=ORIGIN)) as running:
                made = Town(desk, running, heard)
                for role in ROLES:
                    made.browsers[role] = await running.signed_in(role, made.scope)
                made.browsers[None] = await running.signed_in(Role.OPERATOR)
                for browser in made.browsers.values():
                    await browser.post("/session/purpose", "/session", purpose="a look")
                yield made


async def begin(town: Town) -> UUID:
    """Make the least of everything; return a part's reference."""
    house = town.desk.shelf.house
    town.run = await house.declare("run-of-all")
    await grow(town, 0, FEW)
    evidence: UUID = await house.value("SELECT evidence FROM parts WHERE attempt = 'attempt-0' LIMIT 1")
    await town.desk.publish()
    key = (await town.running.key(Role.RUNTIME, town.scope)).split("_")[2]
    scope = await town.running.services.scopes.get(town.scope)
    town.named |= {
        "run": town.run.run, "evidence": str(evidence), "exchange": "exchange-1", "attempt": "attempt-0", "form": "csv",
        "action": "a-0", "key_id": key, "source": "source-of-many", "name": scope.name,
    }  # fmt: skip
    await export_and_read(town, evidence, 1)
    return evidence


@in_module
async def test_every_page_asks_as_much_of_much_as_of_little(town: Town):
    evidence = await begin(town)
    few = await town.reached()
    assert {page.route for page in few} == set(PAGES), set(PAGES) - {page.route for page in few}
    await grow(town, FEW, MANY)
    await town.desk.publish()
    await export_and_read(town, evidence, MANY)
    more = {}
    for page, statements in few.items():
        path = town.path(page.route, page.narrowed)
        many = await town.fewest(town.browsers[page.role], path, expected=statements)
        if many != statements:
            more[page] = (many - statements, statements - many)
    assert more == {}


@in_module
async def test_a_run_that_is_drawn_in_stretches_asks_the_same_however_long_it_is(town: Town):
    house, found = town.desk.shelf.house, []
    for attempts in CONDENSED:
        run = await house.declare()
        names: list[Any] = [
            {"exchange": f"x-{number}", "session": "s", "sequence": number + 1} for number in range(attempts)
        ]
        await town.desk.shelf.persist([house.part(run, b"{}", **each) for each in names])
        found.append(await town.fewest(town.browsers[Role.REVIEWER], f"/runs/{run.run}"))
    assert found[0] == found[1]


@in_module
async def test_reading_content_records_each_part_and_nothing_else_is_recorded(town: Town):
    house = town.desk.shelf.house
    run = await house.declare()
    kinds = (factories.REQUEST, factories.OUTPUT)
    entries = [house.part(run, b"{}", exchange=name, kind=kind) for name in ("x-1", "x-2") for kind in kinds]
    await town.desk.shelf.persist(entries)
    reviewer = town.browsers[Role.REVIEWER]
    attempt = f"/runs/{run.run}/exchanges/x-1/attempts/attempt-1"
    for path, recorded in (
        (f"/runs/{run.run}", 0),
        (f"/runs/{run.run}/exchanges/x-1", 0),
        (attempt, 2),
        (f"{attempt}?view=raw", 2),
        (f"/runs/{run.run}/compare?left=x-1&right=x-2", 4),
    ):
        before = await house.count("accesses")
        statements, answer = await town.asks(reviewer, path)
        assert answer.status_code == httpx.codes.OK, path
        assert await house.count("accesses") == before + recorded, path
        written = sum(times for text, times in statements.items() if "INSERT INTO accesses" in text)
        assert written <= recorded, path


async def test_each_statement_of_a_pool_is_heard_once(database_url: str):
    with listening() as heard:
        database = await Database.open(database_url, role=SERVICE_ROLE, size=2)
        async with database.transaction() as connection:
            for number in range(3):
                await connection.fetchval("SELECT $1::bigint", number)
        await database.close()
    assert Counter(heard)["SELECT $1::bigint"] == 3


async def test_what_is_read_again_because_it_is_old_is_not_heard_however_slow_the_page_is(database_url: str):
    with listening() as heard:
        database = await Database.open(database_url, role=SERVICE_ROLE, size=2)

        async def read(text: str) -> str | None:
            async with database.connection() as connection:
                return str(await connection.fetchval("SELECT $1::text", text))

        known: LastKnown[str, str] = LastKnown(read, age_s=0.0, size=1)
        assert [await known.get("known") for _ in range(3)] == ["known"] * 3
        assert Counter(heard)["SELECT $1::text"] == 0
        assert await read("asked") == "asked"
        await database.close()
    assert Counter(heard)["SELECT $1::text"] == 1
