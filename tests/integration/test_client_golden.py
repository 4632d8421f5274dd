"""The service, held against the golden requests of clients that are out there: it must take each of them for ever."""

import pytest

from custody_client import words
from policies import kinds, reasons
from policies.kinds import Role
from tests.support.capture import OUTPUT, REQUEST, Capturing
from tests.support.golden import READ, Golden
from tests.support.journey import Journey


@pytest.mark.asyncio(loop_scope="module")
async def test_the_service_takes_what_the_client_says(way: Journey):
    scope = await way.scope()
    operator = await way.key(Role.OPERATOR, scope)
    for source in ("doc-7", "doc-8", "doc-8"):
        await way.client.put(f"/v1/sources/{source}", json={}, headers=operator)
    key = await way.key(Role.RUNTIME, scope)
    seen = Capturing(way.api, scope, key, "golden-run")
    ticket = ""

    async def said(golden: Golden) -> object:
        # As it is, but for who says it, and the ticket that this service gave.
        headers = {**golden.headers, **key}
        del headers["Host"]
        if "Custody-Ticket" in headers:
            headers["Custody-Ticket"] = ticket
        answer = await way.client.request(golden.method, golden.path, content=golden.body, headers=headers)
        assert answer.is_success, answer.text
        return answer.json()

    admission = await said(READ["declare"])
    assert isinstance(admission, dict)
    assert admission["admitted"] is True
    ticket = admission["ticket"]
    for _ in range(2):  # an unanswered flush is sent once more
        flushed = await said(READ["frames"])
        assert isinstance(flushed, dict)
        assert [each.get("capture") for each in flushed["receipts"]] == [
            "queued",
            "queued",
            "queued",
            None,
            None,
        ]
        assert all(each["recorded"] for each in flushed["receipts"])
    told = await said(READ["gaps"])
    assert told == {"gaps": [{"type": "gap", "recorded": True, "reason": None}]}
    await way.write()
    closed = await said(READ["close"])
    assert isinstance(closed, dict)
    (session,) = closed["sessions"]
    assert session == {"session": "s-golden", "announced": 4, "stored": 3, "refused": 0, "lost": 1, "open": 0}
    assert "grüße 😀".encode() in await way.content(seen, "x-1", "a-1", REQUEST)
    assert await way.content(seen, "x-1", "a-1", OUTPUT) == b"\x00raw\xff"
    (attempt,) = (await way.json("/v1/attempts", seen, ref="req-1"))["items"]
    assert (attempt["dispatch"], attempt["settlement"]) == ("dispatched", "failed")


def test_both_sides_have_the_same_words():
    """What the client may say and read, against what the service has; a word missing on either side shows here."""
    assert {*words.KINDS} == {*kinds.Kind}
    assert {*kinds.Vantage} == words.VANTAGES
    assert {*kinds.Completeness} == words.COMPLETENESS
    assert {*kinds.Mode} == words.MODES
    assert {*kinds.Content} == words.CONTENTS
    assert {*kinds.Settlement} - {"unknown"} == words.SETTLEMENTS
    assert words.SAYABLE == reasons.CLIENT_REASONS
    assert {*reasons.Reason} >= words.FINAL
    assert {*reasons.Reason} >= words.NOT_NOW
