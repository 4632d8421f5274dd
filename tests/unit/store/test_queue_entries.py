"""Headers of the stream: what an entry of this version looks like, and what is left to others."""

import msgspec
import pytest

from policies.limits import NOTE_BYTES
from policies.reasons import Reason
from store.queue import GapHeader, PartHeader, StateHeader, encode
from store.queue.entries import gap_header, read
from store.queue.wire import read_answers, read_identity
from tests.support.queue_frames import KEY_ID, RUN_UID, gap, new_key, part, state


def fields(kind: bytes, header: bytes, **more: bytes) -> dict[bytes, bytes]:
    return {b"v": b"1", b"t": kind, b"h": header} | {name.encode(): value for name, value in more.items()}


def test_each_type_reads_back() -> None:
    key = new_key()
    frame = part(key, session="s", sequence=4, sources=[("doc", 3), ("other", None)])
    entry = read(b"1-1", fields(b"part", frame.header, b=b"sealed"), 3)
    assert entry is not None
    assert (entry.id, entry.type, entry.sealed, entry.deliveries, entry.key) == (
        "1-1",
        "part",
        b"sealed",
        3,
        key,
    )
    assert isinstance(entry.header, PartHeader)
    assert entry.header.sources == [("doc", 3), ("other", None)]
    assert (entry.header.run_uid, entry.header.key_id) == (RUN_UID.bytes, KEY_ID)

    entry = read(b"1-2", fields(b"state", state(key).header), 1)
    assert entry is not None
    assert isinstance(entry.header, StateHeader)
    assert entry.settle("noted").type == "state"

    entry = read(b"1-3", fields(b"gap", gap(key).header, r=b"identity_conflict"), 1)
    assert entry is not None
    assert isinstance(entry.header, GapHeader)
    assert (entry.header.first, entry.header.last) == (3, 9)
    assert entry.reason is Reason.IDENTITY_CONFLICT


def test_a_refused_parts_header_reads_as_the_stores_gap() -> None:
    frame = part(new_key(), "x", session="s", sequence=4)
    entry = read(b"1-1", fields(b"gap", frame.header, k=b"part", r=b"run_closed"), 1)
    assert entry is not None
    assert isinstance(entry.header, GapHeader)
    header = entry.header
    assert (header.said_by, header.session, header.first, header.last) == ("store", "s", 4, 4)
    assert (header.exchange, header.attempt, header.kind) == ("x", "a", "logical-request")
    assert header.at == 1_790_000_000_000_000
    assert (entry.reason, entry.sealed) == (Reason.RUN_CLOSED, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {b"v": b"2", b"t": b"gap", b"h": gap(new_key()).header},
        {b"v": b"1", b"t": b"fact", b"h": gap(new_key()).header},
        {b"v": b"1", b"t": b"gap", b"h": b"\xc1"},
        {b"v": b"1", b"t": b"gap", b"h": gap(new_key()).header, b"r": b"no_such_reason"},
        {b"v": b"1", b"t": b"gap", b"h": gap(new_key()).header, b"r": b"\xff"},
        {b"v": b"1", b"t": b"part", b"h": part(new_key()).header},
    ],
)
def test_what_this_version_cannot_read_is_none(wrong: dict[bytes, bytes]) -> None:
    assert read(b"1-1", wrong, 1) is None


def test_a_field_that_a_later_minor_adds_at_the_end_does_not_disturb() -> None:
    values = msgspec.msgpack.decode(state(new_key()).header)
    longer = msgspec.msgpack.encode([*values, "later"])
    assert read(b"1-1", fields(b"state", longer), 1) is not None


def test_no_header_has_room_for_content_or_an_exact_size() -> None:
    """A new field must be looked at: what rests in the queue's file outlives what it was about."""
    assert PartHeader.__struct_fields__ == (
        "scope", "run_uid", "run", "exchange", "attempt", "kind", "evidence", "session", "sequence", "media_type",
        "completeness", "vantage", "captured_at", "received_at", "dispatch", "settlement", "sources",
        "policy_version", "key_id",
    )  # fmt: skip


def test_the_longest_gap_of_a_part_is_a_note() -> None:
    sources: list[tuple[str, int | None]] = [("s" * 128, 2**31)] * 32
    frame = part(
        new_key("r" * 128), "x" * 128, attempt="a" * 128, kind="observable-output", session="s" * 128,
        sequence=10**9, sources=sources,
    )  # fmt: skip
    assert len(gap_header(frame.header)) <= NOTE_BYTES
    decoded = msgspec.msgpack.decode(gap_header(frame.header), type=PartHeader)
    assert encode(msgspec.structs.replace(decoded, sources=sources)) == frame.header


def test_answers_of_the_script_read_in_the_order_of_the_frames() -> None:
    pending = b"00000000000000000000000000000007p" + b"0102030405060708" + b"aa" * 8 + b":5:160"
    answers = read_answers([1, b"x" + pending, b"r0run_closed", 0], [2, 0, 3, 1])
    assert [answer.outcome for answer in answers] == ["exists", "absent", "queued", "refused"]
    assert (answers[0].key_id, answers[0].digest) == (KEY_ID, b"\xaa" * 8)
    assert (answers[3].reason, answers[3].recorded) == (Reason.RUN_CLOSED, False)
    stored = read_identity(b"00000000000000000000000000000007s")
    assert (stored.pending, stored.key_id, stored.digest) == (False, None, None)
    with pytest.raises(KeyError):
        read_answers([b"r1no_such_reason"], [0])
