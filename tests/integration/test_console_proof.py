"""A part's page, the accesses and the proof log in the console: what they show, to whom, and what they never do."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID, uuid4

import httpx
import pytest
import pytest_asyncio

from policies.kinds import Role
from store.ids import ScopeId
from tests.support.api import settings_for
from tests.support.console import Browser, Running, console
from tests.support.databases import clone_of
from tests.support.exporting import ORIGIN, Desk, office

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROLES = (Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR, Role.OPERATOR)


@dataclass(frozen=True, slots=True)
class Hall:
    """A store with a log, and its console."""

    desk: Desk
    running: Running

    async def enter(self, role: Role, scope: UUID | None = None) -> Browser:
        return await self.running.signed_in(role, ScopeId(scope or self.desk.shelf.house.scope))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hall(
    postgres_url: str, template_database: str, valkey_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Hall]:
    place = tmp_path_factory.mktemp("hall")
    (place / "keys").mkdir(mode=0o700)
    async with (
        clone_of(postgres_url, template_database) as url,
        office(url, valkey_url, place / "keys", place) as desk,
        console(settings_for(url, valkey_url, place / "keys", log_origin=ORIGIN)) as running,
    ):
        yield Hall(desk, running)


async def a_part(hall: Hall, content: bytes = b"what was given", **facts: object) -> tuple[str, UUID]:
    run = await hall.desk.shelf.house.declare()
    return run.run, await hall.desk.shelf.store(run, content, **facts)


def proof_state(text: str) -> str:
    found = re.search(r'data-proof="(\w+)"', text)
    assert found, text
    return found[1]


async def test_a_part_tells_how_it_stands_and_never_its_content(hall: Hall):
    run, evidence = await a_part(hall, b"never on this page")
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
    _, evidence = await a_part(hall)
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
    _, evidence = await a_part(hall)
    await hall.desk.publish()
    house = hall.desk.shelf.house
    await house.execute("UPDATE parts SET media_type = 'text/html' WHERE evidence = $1", evidence)
    shown = (await (await hall.enter(Role.REVIEWER)).get(f"/parts/{evidence}")).text
    assert proof_state(shown) == "failed"


async def test_another_scopes_part_is_the_same_as_none(hall: Hall):
    _, evidence = await a_part(hall)
    await hall.desk.publish()
    other = await hall.enter(Role.REVIEWER, await hall.desk.shelf.house.add_scope())
    none = uuid4()
    for path in ("/parts/{}", "/parts/{}/proof", "/parts/{}/leaf"):
        theirs, nothing = [await other.get(path.format(each)) for each in (evidence, none)]
        assert theirs.status_code == nothing.status_code == httpx.codes.NOT_FOUND
        assert theirs.text.replace(str(evidence), "") == nothing.text.replace(str(none), "")
