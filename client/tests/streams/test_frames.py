"""Frames of the binary event stream: whole ones, damaged ones, and too long ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.tests.streams.made import CONVERSE
from client.tests.streams.wire import assembler, frame, text
from custody_client.streams.frames import Frames

LIMIT = 1 << 20
HELLO = frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "hello"}})
WORLD = frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": " world"}})


def test_a_frame_has_its_headers_and_its_payload():
    (one,) = Frames(LIMIT).feed(frame("messageStop", b"{}"))
    assert one.headers == {
        ":message-type": "event",
        ":content-type": "application/json",
        ":event-type": "messageStop",
    }
    assert one.payload == b"{}"


@given(st.integers(min_value=0, max_value=len(HELLO) * 8 - 1), st.integers(min_value=1, max_value=len(HELLO)))
@settings(max_examples=150)
def test_a_flipped_bit_is_never_taken_for_the_frame(bit, size):
    data = bytearray(HELLO)
    data[bit // 8] ^= 1 << bit % 8
    reader = Frames(LIMIT)
    found = [one for at in range(0, len(data), size) for one in reader.feed(bytes(data[at : at + size]))]
    assert found == []
    assert reader.lost or reader.damaged == 1 or reader.rest()


@pytest.mark.parametrize("at", [0, 5, 9])
def test_after_a_wrong_prelude_nothing_is_believed(at):
    data = bytearray(HELLO)
    data[at] ^= 1
    made = assembler("bedrock.converse", WORLD, bytes(data), WORLD)
    assert text(made.output()) == " world"
    assert made.state == "interrupted"
    assert made.output().notes == ["frames-damaged"]


def test_after_a_wrong_payload_the_next_frame_is_read():
    data = bytearray(HELLO)
    data[-8] ^= 1
    made = assembler("bedrock.converse", bytes(data), WORLD, CONVERSE.pieces[-2])
    assert text(made.output()) == " world"
    assert made.output().notes == ["frames-damaged"]
    assert made.state == "completed"


@pytest.mark.parametrize("size", [1, 7, 1 << 12])
def test_a_frame_that_is_too_long_is_passed_over(size):
    long = frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "x" * 2000}})
    data = HELLO + long + WORLD
    reader = Frames(1024)
    found = [one for at in range(0, len(data), size) for one in reader.feed(data[at : at + size])]
    assert [one.payload for one in found] == [one.payload for one in Frames(LIMIT).feed(HELLO + WORLD)]
    assert (reader.dropped, reader.damaged, reader.lost) == (1, 0, False)


def test_a_length_beyond_all_reason_is_not_waited_for():
    from zlib import crc32  # noqa: PLC0415 -- beside what it makes

    prelude = (1 << 31).to_bytes(4) + (0).to_bytes(4)
    reader = Frames(LIMIT)
    assert reader.feed(prelude + crc32(prelude).to_bytes(4)) == []
    assert reader.lost
    assert reader.rest() == b""
