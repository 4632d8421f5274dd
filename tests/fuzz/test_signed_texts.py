"""Tickets, receipts and cursors that are not quite what we gave: each is refused, and by its own reason."""

from urllib.parse import quote

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from policies.kinds import Role
from tests.support.answers import sane
from tests.support.capture import REQUEST, Capturing
from tests.support.fuzzing import LONG, SMOKE, tampered
from tests.support.journey import Journey

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Given:
    """A ticket, a receipt, and the cursors of every list that has a second page."""

    def __init__(
        self, runtime: Capturing, receipt: str, cursors: dict[str, str], reader: dict[str, str]
    ) -> None:
        self.runtime = runtime
        self.receipt = receipt
        self.cursors = cursors
        self.reader = reader


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def given_texts(standing: Journey) -> Given:
    runtime = await standing.runtime("given-2")
    await runtime.declare("given-1")
    for number in range(2):
        answer = await runtime.put(b"{}", exchange=f"x-{number}")
        await runtime.put(b"x" * 300_000, exchange=f"big-{number}")
    await standing.write()
    operator = await standing.key(Role.OPERATOR, runtime.scope)
    for number in range(2):
        await standing.client.put(f"/v1/sources/doc-{number}", json={}, headers=operator)
        named = {"run": runtime.run, "exchange": f"x-{number}", "attempt": "a-1", "kind": REQUEST}
        await standing.client.post("/v1/erasures", json=named, headers=operator)
    cursors = {}
    for path in (
        "/v1/parts",
        "/v1/runs",
        "/v1/runs/given-1/receipts",
        "/v1/runs/given-1/gaps",
        "/v1/sources",
        "/v1/erasures",
    ):
        page = (await standing.client.get(path, params={"limit": 1}, headers=operator)).json()
        cursors[path] = page["page"]["next"] if "page" in page else page["next"]
    assert None not in cursors.values(), cursors
    return Given(runtime, answer.json()["receipt"], cursors, operator)


@given(data=st.data())
@SMOKE
async def test_what_was_tampered_with_is_refused(standing: Journey, given_texts: Given, data: st.DataObject):
    await refused(standing, given_texts, data)


@pytest.mark.long
@pytest.mark.timeout(600)
@given(data=st.data())
@LONG
async def test_what_was_tampered_with_is_refused_at_length(
    standing: Journey, given_texts: Given, data: st.DataObject
):
    await refused(standing, given_texts, data)


async def test_a_cursor_is_good_for_no_other_list(standing: Journey, given_texts: Given):
    for path in given_texts.cursors:
        for other, cursor in given_texts.cursors.items():
            answer = await standing.client.get(
                path, params={"limit": 1, "cursor": cursor}, headers=given_texts.reader
            )
            assert answer.status_code == (200 if other == path else 400), (path, other)


async def refused(way: Journey, texts: Given, data: st.DataObject) -> None:
    runtime = texts.runtime
    match data.draw(st.sampled_from(["ticket", "receipt", "cursor"])):
        case "ticket":
            text = data.draw(
                tampered(runtime.ticket).filter(
                    # A client cannot even send blanks around a header's value.
                    lambda text: text != runtime.ticket and text == text.strip(" \t") and "\n" not in text
                )
            )
            usual = {name.encode(): value.encode() for name, value in runtime.headers().items()}
            headers = {**usual, b"Custody-Ticket": text.encode()}
            answer = await way.client.put(runtime.path("forged"), content=b"{}", headers=headers)
            expected = "ticket_invalid"
        case "receipt":
            text = data.draw(tampered(texts.receipt).filter(lambda text: text != texts.receipt))
            answer = await way.client.get(f"/v1/receipts/{quote(text, safe='')}", headers=runtime.key)
            expected = "not_found"
        case _:
            path = data.draw(st.sampled_from(sorted(texts.cursors)))
            text = data.draw(tampered(texts.cursors[path]).filter(lambda text: text != texts.cursors[path]))
            answer = await way.client.get(path, params={"limit": 1, "cursor": text}, headers=texts.reader)
            expected = "cursor_invalid"
    found = sane(answer)
    assert found is not None, (expected, text)
    assert found["reason"] == expected, found
    assert text not in answer.text or len(text) < 12
