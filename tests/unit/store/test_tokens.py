"""Tickets, receipts and cursors: read back as they were given, and never forged, moved or outlived."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kinds import Capture, Kind
from policies.limits import RunLimits, ScopeLimits
from policies.reasons import Reason
from policies.revocation import Binding
from store import cursor, receipts, tickets, tokens
from store.cursor import Cursor, Question
from store.errors import Malformed, NotFound, Refused
from store.ids import EvidenceId, RunUid, ScopeId
from store.receipts import Claims
from store.services.notes import microseconds
from store.tickets import Ticket, TicketReader

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
NOW = datetime(2026, 1, 2, 12, 0, 0, 5, tzinfo=UTC)
SCOPE = ScopeId(UUID(int=1))

TICKET = Ticket(
    scope=SCOPE,
    key_id="a1b2",
    shared=True,
    run="demo-run",
    run_uid=RunUid(UUID(int=2)),
    kinds=frozenset({Kind.LOGICAL_REQUEST}),
    limits=RunLimits(1, 2, 3, 4, 5, 6),
    scope_limits=ScopeLimits(7, 8, 0.25),
    policy_version=9,
    retain_until=NOW + timedelta(days=30),
    expires_at=NOW + timedelta(minutes=15),
    sources=frozenset({Binding("doc-7", 3), Binding("doc-8")}),
)
CLAIMS = Claims(
    evidence=EvidenceId(UUID(int=3)),
    run="demo-run",
    exchange="research-4",
    attempt="physical-2",
    kind=Kind.OBSERVABLE_OUTPUT,
    capture=Capture.NOT_CAPTURED,
    reason=Reason.CAPACITY_EXCEEDED,
    first_at_us=1_700_000_000_123_456,
)
QUESTION = Question(
    scope=SCOPE,
    key_id="a1b2",
    clearances=frozenset({"legal", "medical"}),
    page="parts",
    filter=(("run", "demo-run"), ("kind", "logical-request")),
    order="newest",
)
CURSOR = Cursor(last_at=NOW, last_id=UUID(int=4), issued_at=NOW)


def altered(text: str) -> list[str]:
    """Every text that differs from `text` in one character, or is cut, longer, or written another way."""
    swapped = [text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :] for at in range(len(text))]
    more = [
        "",
        text[:-1],
        text[4:],
        text + "A",
        text + "=",
        text + "\n",
        " " + text,
        text + "é",
        "x" * 10_000,
    ]
    return swapped + more


def test_a_ticket_is_read_back():
    assert tickets.read(KEY, tickets.issue(KEY, TICKET), NOW) == TICKET
    everything = replace(TICKET, kinds=frozenset(Kind), shared=False)
    assert tickets.read(KEY, tickets.issue(KEY, everything), NOW) == everything


def test_a_ticket_that_was_altered_or_is_of_another_key_is_invalid():
    text = tickets.issue(KEY, TICKET)
    reader = TicketReader(KEY)
    for forged in [*altered(text), tickets.issue(OTHER_KEY, TICKET)]:
        with pytest.raises(Refused) as raised:
            tickets.read(KEY, forged, NOW)
        assert raised.value.reason is Reason.TICKET_INVALID
        with pytest.raises(Refused):
            reader.genuine(forged)


def test_a_ticket_expires_with_a_minute_of_grace():
    text = tickets.issue(KEY, TICKET)
    assert tickets.read(KEY, text, TICKET.expires_at + timedelta(seconds=59)) == TICKET
    with pytest.raises(Refused) as raised:
        tickets.read(KEY, text, TICKET.expires_at + timedelta(seconds=60))
    assert raised.value.reason is Reason.TICKET_EXPIRED


def test_a_reader_checks_a_ticket_once_and_remembers_few(monkeypatch):
    checked = []
    real = tokens.verified

    def counted(*args):
        checked.append(args)
        return real(*args)

    monkeypatch.setattr(tokens, "verified", counted)
    reader = TicketReader(KEY, size=2)
    texts = [tickets.issue(KEY, replace(TICKET, run=f"run-{n}")) for n in range(3)]
    for text in (texts[0], texts[0], texts[1], texts[1], texts[0]):
        reader.genuine(text)
    assert len(checked) == 2
    reader.genuine(texts[2])
    reader.genuine(texts[0])
    assert len(checked) == 4
    with pytest.raises(Refused):
        reader.genuine("ct1.AAAA")
    assert len(reader._known) == 2


def test_a_receipt_is_read_back():
    for claims in (CLAIMS, msgspec.structs.replace(CLAIMS, capture=Capture.QUEUED, reason=None)):
        assert receipts.read(KEY, SCOPE, receipts.issue(KEY, SCOPE, claims)) == claims


def test_a_receipt_of_the_longest_ids_fits_a_url():
    longest = msgspec.structs.replace(CLAIMS, run="r" * 128, exchange="x" * 128, attempt="a" * 128)
    text = receipts.issue(KEY, SCOPE, longest)
    assert len(text) < 700
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")


def test_a_receipt_that_was_altered_or_is_of_another_key_or_scope_is_not_found():
    text = receipts.issue(KEY, SCOPE, CLAIMS)
    other_scope = receipts.issue(KEY, ScopeId(UUID(int=9)), CLAIMS)
    for forged in [*altered(text), receipts.issue(OTHER_KEY, SCOPE, CLAIMS), other_scope]:
        with pytest.raises(NotFound) as raised:
            receipts.read(KEY, SCOPE, forged)
        assert raised.value.reason is Reason.NOT_FOUND


@given(st.datetimes(datetime(1990, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_a_receipt_keeps_its_time_to_the_microsecond(first_at):
    claims = msgspec.structs.replace(CLAIMS, first_at_us=microseconds(first_at))
    assert receipts.read(KEY, SCOPE, receipts.issue(KEY, SCOPE, claims)).first_at == first_at


def test_a_cursor_is_read_back_for_the_same_question():
    text = cursor.sign(KEY, QUESTION, CURSOR)
    assert cursor.read(KEY, QUESTION, text, NOW) == CURSOR
    reordered = replace(QUESTION, filter=QUESTION.filter[::-1])
    assert cursor.read(KEY, reordered, text, NOW) == CURSOR


@pytest.mark.parametrize(
    "changed",
    [
        {"scope": UUID(int=9)},
        {"key_id": "other"},
        {"clearances": frozenset({"legal"})},
        {"clearances": frozenset({"legalmedical"})},
        {"page": "runs"},
        {"filter": (("run", "demo-run"),)},
        {"filter": (("run", "demo-run"), ("kind", "observable-output"))},
        {"filter": (("rundemo-run", ""), ("kind", "logical-request"))},
        {"order": "oldest"},
    ],
)
def test_a_cursor_for_another_question_is_invalid(changed):
    text = cursor.sign(KEY, QUESTION, CURSOR)
    with pytest.raises(Malformed) as raised:
        cursor.read(KEY, replace(QUESTION, **changed), text, NOW)
    assert raised.value.reason is Reason.CURSOR_INVALID


def test_a_cursor_that_was_altered_or_is_of_another_key_is_invalid():
    for forged in [*altered(cursor.sign(KEY, QUESTION, CURSOR)), cursor.sign(OTHER_KEY, QUESTION, CURSOR)]:
        with pytest.raises(Malformed) as raised:
            cursor.read(KEY, QUESTION, forged, NOW)
        assert raised.value.reason is Reason.CURSOR_INVALID


def test_a_cursor_lives_for_a_day():
    text = cursor.sign(KEY, QUESTION, CURSOR)
    assert cursor.read(KEY, QUESTION, text, NOW + timedelta(hours=24)) == CURSOR
    for when in (NOW + timedelta(hours=24, microseconds=1), NOW - timedelta(seconds=61)):
        with pytest.raises(Malformed):
            cursor.read(KEY, QUESTION, text, when)


def test_one_kind_of_text_is_not_another_even_under_one_key():
    payload = msgspec.msgpack.encode(["x"])
    text = tokens.sign("ct1.", KEY, payload)
    assert tokens.verified("ct1.", KEY, text) == payload
    assert tokens.verified("cr1.", KEY, "cr1." + text.removeprefix("ct1.")) is None


def test_a_genuine_text_with_a_payload_of_another_layout_is_refused():
    payload = msgspec.msgpack.encode(["x"])
    with pytest.raises(Refused):
        tickets.read(KEY, tokens.sign(tickets.PREFIX, KEY, payload), NOW)
    with pytest.raises(NotFound):
        receipts.read(KEY, SCOPE, tokens.sign(receipts.PREFIX, KEY, payload, SCOPE.bytes, tag_bytes=16))
    with pytest.raises(Malformed):
        cursor.read(KEY, QUESTION, tokens.sign(cursor.PREFIX, KEY, payload, QUESTION.bytes()), NOW)


@given(st.text(max_size=100))
def test_no_text_raises_anything_else(text):
    for candidate in (text, "ct1." + text):
        assert tokens.verified("ct1.", KEY, candidate) is None
