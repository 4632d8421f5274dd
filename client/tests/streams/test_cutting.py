"""The same bytes cut elsewhere are the same stream, and no bytes at all raise anything."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.tests.streams.made import ALL
from client.tests.streams.wire import DONE, assembler, chunk, cut, output, sse
from custody_client.streams import Assembler, Limits

STREAMS = st.sampled_from(list(ALL.values()))
PLACES = st.lists(st.integers(min_value=0, max_value=1 << 16), max_size=40)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
MARK = b"\xef\xbb\xbf"


@given(STREAMS, PLACES)
@settings(max_examples=150)
def test_any_cut_of_a_stream_gives_the_same_output(stream, places):
    assert (
        assembler(stream.api, *cut(stream.data, places)).encode()
        == assembler(stream.api, stream.data).encode()
    )


@pytest.mark.parametrize("stream", ALL.values(), ids=ALL.keys())
def test_byte_by_byte_gives_the_same_output(stream):
    single = (stream.data[at : at + 1] for at in range(len(stream.data)))
    assert assembler(stream.api, *single).encode() == assembler(stream.api, stream.data).encode()


@given(ENDS, st.booleans(), PLACES)
@settings(max_examples=100)
def test_lines_may_end_in_three_ways_and_a_mark_may_stand_before(end, marked, places):
    stream = ALL["chat.completions"]
    data = (MARK if marked else b"") + stream.data.replace(b"\n", end)
    assert assembler(stream.api, *cut(data, places)).encode() == assembler(stream.api, stream.data).encode()


@given(STREAMS, st.integers(min_value=0, max_value=1 << 16), PLACES)
@settings(max_examples=150)
def test_a_stream_that_breaks_off_is_the_same_however_it_was_cut(stream, end, places):
    data = stream.data[: end % (len(stream.data) + 1)]
    broken = assembler(stream.api, *cut(data, places))
    assert broken.encode() == assembler(stream.api, data).encode()
    assert not [note for note in broken.output().notes if note.startswith("assembly-failed")]


@pytest.mark.parametrize("stream", ALL.values(), ids=ALL.keys())
def test_what_was_seen_only_grows(stream):
    """Asking in between changes nothing: neither what is there nor what comes."""
    asked, size = Assembler(stream.api), 0
    for at in range(0, len(stream.data), 7):
        asked.feed(stream.data[at : at + 7])
        if at % 35 == 0:
            said = sum(len(getattr(item, "text", "")) for one in asked.output().choices for item in one.items)
            assert said >= size
            size = said
    assert asked.encode() == assembler(stream.api, stream.data).encode()


@given(st.sampled_from([*ALL, "other"]), st.lists(st.binary(max_size=60), max_size=20))
@settings(max_examples=100)
def test_no_bytes_raise(api, pieces):
    made = assembler(api, *pieces)
    made.answer(b"".join(pieces))
    json.loads(made.encode())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "index",
                    "tool_calls",
                    "function",
                    "arguments",
                    "id",
                    "name",
                    "type",
                    "message",
                    "content",
                    "candidates",
                    "parts",
                    "text",
                    "functionCall",
                    "args",
                    "usage",
                    "error",
                    "output",
                    "item",
                    "response",
                    "status",
                    "contentBlockDelta",
                    "contentBlockIndex",
                    "toolUse",
                    "input",
                    "finish_reason",
                    "content_block_delta",
                    "content_block",
                    "partial_json",
                    "chunk",
                    "bytes",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)
TYPES = st.sampled_from(
    [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "message_delta",
        "error",
        "response.output_item.added",
        "response.output_item.done",
        "response.output_text.delta",
        "response.completed",
        "response.function_call_arguments.delta",
        "response.created",
    ]
)


@given(st.sampled_from(list(ALL)), JSON, TYPES, st.booleans())
@settings(max_examples=150)
def test_no_event_raises(api, event, kind, with_type):
    if with_type and isinstance(event, dict):
        event = {**event, "type": kind}
    made = Assembler(api)
    made.event(event)
    made.answer(event)
    made.feed(b"data: " + json.dumps(event).encode() + b"\n\n")
    json.loads(made.encode())


@given(st.integers(min_value=0, max_value=1 << 20), st.integers(min_value=0, max_value=255), PLACES)
@settings(max_examples=15)
def test_a_changed_byte_never_raises(at, byte, places):
    for stream in ALL.values():
        data = bytearray(stream.data)
        data[at % len(data)] = byte
        json.loads(assembler(stream.api, *cut(bytes(data), places)).encode())


@given(PLACES)
@settings(max_examples=60)
def test_an_event_that_is_too_long_is_dropped_wherever_it_is_cut(places):
    long = sse(chunk({"content": "x" * 3000}))
    data = sse(chunk({"content": "a"})) + long + sse(chunk({"content": "b"}, "stop")) + DONE
    given = assembler("chat.completions", *cut(data, places), limits=Limits(event_bytes=1024)).output()
    assert given.limits.dropped_events == 1
    assert given == output("chat.completions", data, limits=Limits(event_bytes=1024))
    assert given.stream.state == "completed"


def test_events_without_their_last_line_are_taken_if_they_are_whole():
    whole = sse(chunk({"content": "a"}, "stop"))
    assert assembler("chat.completions", whole[:-2]).state == "finished-no-terminal"
    assert assembler("chat.completions", whole, b"data: [DONE]").state == "completed"
    short = assembler("chat.completions", whole[:-3])
    assert short.state == "interrupted"
    assert short.output().notes == ["ends-within-an-event"]


def test_other_fields_comments_and_several_lines_of_data():
    event = json.dumps(chunk({"content": "a"}), indent=1).encode()
    data = b": hello\n\nretry: 10\nid: 7\nevent: x\n" + b"".join(
        b"data:" + line + b"\n" for line in event.split(b"\n")
    )
    assert (
        assembler("chat.completions", data, b"\n").encode()
        == assembler("chat.completions", sse(chunk({"content": "a"}))).encode()
    )


def test_asking_within_an_event_that_ends_with_its_name_takes_it_once():
    """Some write the name behind the data: an event that was taken early goes on."""
    stream = ALL["responses"]
    blocks = [block.split(b"\n") for block in stream.data.split(b"\n\n") if block]
    turned = b"".join(data + b"\n" + name + b"\n\n" for name, data in blocks)
    asked = Assembler(stream.api)
    for at in range(len(turned)):
        asked.feed(turned[at : at + 1])
        assert asked.state in {"interrupted", "completed"}
    assert asked.encode() == assembler(stream.api, stream.data).encode()


TOKENS = [
    b"data: ",
    b"data:",
    b"\n",
    b"\n\n",
    b"\r",
    b"\r\n",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b" ",
    b"x",
    b"[DONE]",
]
TOKENS += [b"event: error", b": c", MARK, MARK[:1], b'{"error":"no"}', b'"a":1', b"\xc3\xa9"]
TOKENS += [b'{"choices":[{"delta":{"content":"a"}}]}', b'{"choices":[\n{"delta":{"content":"b"}}\n]}']


@given(st.lists(st.sampled_from(TOKENS), max_size=14).map(b"".join), PLACES, st.sampled_from([1 << 20, 40]))
@settings(max_examples=300)
def test_any_text_is_the_same_however_it_was_cut(data, places, limit):
    limits = Limits(event_bytes=limit)
    pieces = assembler("chat.completions", *cut(data, places), limits=limits)
    assert pieces.encode() == assembler("chat.completions", data, limits=limits).encode()


@pytest.mark.parametrize(
    ("data", "place"),
    [(b"}\n\n\n\n", 2), (b"\n" + MARK + b"data: ", 1), (MARK + b"\n" + MARK + b"data: 1\n\n", 4)],
)
def test_cuts_that_once_made_a_difference(data, place):
    assert assembler("chat.completions", data[:place], data[place:]).encode() == (
        assembler("chat.completions", data).encode()
    )
