"""Who may do what: every page and every action of the console, for every role, in one's own scope and in another's."""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import httpx
import pytest
import pytest_asyncio
from litestar.routes import HTTPRoute

from console.app import ROUTERS
from policies.kinds import Role
from tests.support.console import Browser, form_token
from tests.support.databases import clone_of
from tests.support.facts import classic
from tests.support.hall import SIGNED_IN, Hall
from tests.support.hall import hall as opened

in_module = pytest.mark.asyncio(loop_scope="module")

ALL = frozenset(SIGNED_IN)
PROVERS = ALL - {Role.OPERATOR}
READERS = frozenset({Role.REVIEWER, Role.CUSTODIAN})
WATCHERS = ALL - {Role.REVIEWER}
OPERATORS = frozenset({Role.OPERATOR})
# Nobody's own: they answer without a session.
OPEN = {
    ("GET", "/sign-in"),
    ("POST", "/sign-in"),
    ("GET", "/static/{name:str}"),
    ("GET", "/livez"),
    ("GET", "/metrics"),
}

_RUN = "/runs/{run:str}"
_PART = "/parts/{evidence:str}"
TABLE = {
    ("GET", "/"): ALL,
    ("GET", "/session"): ALL,
    ("POST", "/session/purpose"): ALL,
    ("POST", "/sign-out"): ALL,
    ("GET", "/runs"): ALL,
    ("GET", "/runs/find"): ALL,
    ("GET", "/runs/suggest"): ALL,
    ("GET", _RUN): ALL,
    ("GET", f"{_RUN}/gaps"): ALL,
    ("GET", f"{_RUN}/exchanges/{{exchange:str}}"): ALL,
    # Whoever may not read content sees there that he may not, and what else is known.
    ("GET", f"{_RUN}/exchanges/{{exchange:str}}/attempts/{{attempt:str}}"): ALL,
    ("GET", f"{_RUN}/compare"): ALL,
    # What toolchains tell is no content.
    ("GET", f"{_RUN}/actions"): ALL,
    ("GET", f"{_RUN}/actions/{{action:str}}"): ALL,
    ("GET", f"{_RUN}/surface"): ALL,
    ("GET", f"{_RUN}/coverage"): ALL,
    ("GET", f"{_RUN}/delivery"): ALL,
    ("GET", _PART): ALL,
    ("GET", f"{_PART}/raw"): READERS,
    ("GET", f"{_PART}/proof"): PROVERS,
    ("GET", f"{_PART}/leaf"): PROVERS,
    ("GET", "/accesses"): WATCHERS,
    ("GET", "/lists/runs/{form:str}"): ALL,
    ("GET", "/lists/parts/{form:str}"): ALL,
    ("GET", "/lists/accesses/{form:str}"): WATCHERS,
    # Who watches operators sees what they did, as over the api.
    ("GET", "/desk/actions"): OPERATORS | {Role.AUDITOR},
    ("GET", "/log"): ALL,
    ("GET", "/log/checkpoint"): ALL,
    ("GET", "/exports"): PROVERS,
    ("POST", "/exports"): PROVERS,
    ("GET", "/exports/{export:str}"): PROVERS,
    ("POST", "/exports/{export:str}/bundle"): PROVERS,
}  # fmt: skip
# All of it, whatever it is, but for what is named above.
DESK = "/desk"
ROLE_REFUSED = "role does not reach this page"


def routes() -> Iterator[tuple[str, str]]:
    for router in ROUTERS:
        for route in router.routes:
            assert isinstance(route, HTTPRoute)
            yield from (
                (str(method), route.path)
                for method in route.methods
                if str(method) not in {"OPTIONS", "HEAD"}
            )


ROUTES = sorted(set(routes()) - OPEN)
# What names something of a scope, with what there is of it in another one.
OF_A_SCOPE = [path for method, path in ROUTES if method == "GET" and ("{run" in path or "{evidence" in path)]


def allowed(method: str, path: str) -> frozenset[Role]:
    of_desk = path == DESK or path.startswith(f"{DESK}/")
    return TABLE.get((method, path), OPERATORS) if of_desk else TABLE[method, path]


@dataclass(frozen=True, slots=True)
class Known:
    """A part that is there, in whose place others can be named."""

    hall: Hall
    run: str
    evidence: str

    def path(self, route: str, **named: str) -> str:
        there = {
            "run": self.run,
            "evidence": self.evidence,
            "exchange": "exchange-1",
            "attempt": "attempt-1",
            "form": "csv",
            "action": "a-1",
            **named,
        }
        filled = re.sub(r"\{(\w+):\w+\}", lambda found: there.get(found[1], "none"), route)
        return f"{filled}?left=exchange-1&right=exchange-1" if route.endswith("/compare") else filled


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def known(
    postgres_url: str, template_database: str, valkey_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Known]:
    async with (
        clone_of(postgres_url, template_database) as url,
        opened(url, valkey_url, tmp_path_factory.mktemp("hall")) as hall,
    ):
        run, evidence = await hall.part()
        await hall.tell(run, *classic())
        await hall.desk.publish()
        yield Known(hall, run, str(evidence))


async def ask(browser: Browser, token: str, method: str, path: str) -> httpx.Response:
    sent = {"data": {"csrf": token}} if method == "POST" else {}
    return await browser.client.request(method, path, **sent)  # type: ignore[arg-type] # as written above


def test_every_page_and_every_action_is_in_the_table():
    listed = {each for each in ROUTES if not each[1].startswith(DESK)}
    assert listed == {each for each in TABLE if not each[1].startswith(DESK)}


@in_module
@pytest.mark.parametrize("role", SIGNED_IN)
async def test_a_role_reaches_exactly_what_the_table_says(known: Known, role: Role):
    browser = await known.hall.enter(role)
    token = form_token((await browser.get("/session")).text)
    # The end of the session last.
    for method, route in sorted(ROUTES, key=lambda each: each[1] == "/sign-out"):
        answer = await ask(browser, token, method, known.path(route))
        refused = (answer.status_code, ROLE_REFUSED in answer.text) == (403, True)
        assert refused == (role not in allowed(method, route)), (method, route, answer.status_code)
        assert answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR, (method, route)
        if (method, route) in TABLE and not refused and method == "GET" and "{export" not in route:
            assert answer.status_code in {200, 303, 400 if route == "/runs/find" else 200}, (
                route,
                answer.text,
            )


@in_module
@pytest.mark.parametrize("role", SIGNED_IN)
async def test_what_is_another_scopes_looks_as_if_it_never_was(known: Known, role: Role):
    other = await known.hall.running.scope(f"other-{role.value}")
    browser = await known.hall.enter(role, other.scope_id)
    for route in OF_A_SCOPE:
        if role not in allowed("GET", route):
            continue
        theirs = await browser.get(known.path(route))
        nobodys = {"run": "never", "evidence": "00000000-0000-7000-8000-000000000000"}
        never = await browser.get(known.path(route, **nobodys))
        assert theirs.status_code == never.status_code, route
        assert theirs.status_code in ({404} if role in READERS or "attempts" not in route else {404, 403}), (
            route
        )
        same = theirs.text.replace(known.run, "never").replace(known.evidence, nobodys["evidence"])
        assert same == never.text, route


@in_module
async def test_an_operator_of_the_store_reaches_the_same_with_a_scope_and_nothing_of_scopes_without(
    known: Known,
):
    browser = await known.hall.running.signed_in(Role.OPERATOR)
    token = form_token((await browser.get("/session")).text)
    for route in OF_A_SCOPE:
        answer = await ask(browser, token, "GET", known.path(route))
        expected = 303 if Role.OPERATOR in allowed("GET", route) else 403
        assert answer.status_code == expected, route
