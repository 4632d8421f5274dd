"""Whatever a stream brings, an output stays small, says what it left out, and each chunk costs the same."""

import json
import time
from hashlib import sha256

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.tests.streams.made import ALL
from client.tests.streams.wire import DONE, assembler, calls, chunk, output, sse, text, tools
from custody_client.streams import Assembler, Limits
from custody_client.streams.output import Cut, Text

WORDS = ["aé", "\U0001f600", "x" * 7, "", "ß"]


@given(st.lists(st.sampled_from(WORDS), max_size=40), st.integers(min_value=0, max_value=60))
@settings(max_examples=100)
def test_a_long_text_keeps_its_beginning_its_length_and_its_digest(words, limit):
    whole = "".join(words)
    data = whole.encode()
    given = output(
        "chat.completions",
        sse(*(chunk({"content": word}) for word in words)),
        limits=Limits(text_bytes=limit),
    )
    if not whole:
        return
    item = given.choices[0].items[0]
    assert isinstance(item, Text)
    assert whole.startswith(item.text)
    assert limit - 4 < len(item.text.encode()) <= limit or item.text == whole
    if len(data) <= limit:
        assert (item.text, item.cut) == (whole, msgspec.UNSET)
    else:
        assert item.cut == Cut(len(data), sha256(data).hexdigest())
        assert given.limits.truncated


def test_long_arguments_are_not_judged():
    pieces = [{"index": 0, "function": {"arguments": '{"a":'}}, {"index": 0, "function": {"arguments": "1}"}}]
    first = {"index": 0, "id": "A", "function": {"name": "f"}}
    given = output("chat.completions", sse(*map(tools, [first, *pieces])), limits=Limits(arguments_bytes=6))
    arguments = calls(given)[0].arguments
    assert (arguments.raw, arguments.state) == ('{"a":1', "truncated")
    assert arguments.cut == Cut(7, sha256(b'{"a":1}').hexdigest())
    assert [fragment.n for fragment in arguments.fragments] == [msgspec.UNSET, 5, 2]


def test_a_truncated_output_says_so_in_the_words_of_parts():
    made = assembler(
        "chat.completions", sse(chunk({"content": "x" * 100}, "stop")), DONE, limits=Limits(text_bytes=10)
    )
    assert made.state == "completed"
    assert made.completeness == "truncated"


def test_too_many_calls_fragments_items_choices_and_notes():
    limits = Limits(calls=2, fragments=3, items=4, choices=2, notes=2)
    call = [{"index": at, "id": f"c{at}", "function": {"name": "f", "arguments": "{}"}} for at in range(5)]
    given = output("chat.completions", sse(*map(tools, call)), limits=limits)
    assert len(calls(given)) == 2
    assert (given.limits.dropped_items, given.limits.dropped_fragments, given.limits.truncated) == (
        3,
        2,
        True,
    )
    many = [{"choices": [{"index": at, "delta": {"content": "a"}}]} for at in range(5)]
    assert [choice.index for choice in output("chat.completions", sse(*many), limits=limits).choices] == [
        0,
        1,
    ]
    odd = [chunk({f"new-{at}": 1}) for at in range(9)]
    assert len(output("chat.completions", sse(*odd), limits=limits).notes) == 2


HOSTILE = {
    "text": lambda _: chunk({"content": "x" * 4000}),
    "calls": lambda at: tools(
        {"index": at, "id": f"call-{at}", "function": {"name": "f" * 300, "arguments": "{}"}}
    ),
    "fragments": lambda _: tools({"index": 0, "id": "a", "function": {"name": None, "arguments": "1"}}),
    "choices": lambda at: {"choices": [{"index": at, "delta": {"content": "x" * 50}}]},
    "facts": lambda at: chunk({f"new-{at}": "y" * 2000}),
    "opaque": lambda at: chunk({"reasoning_details": [{"type": "t", "signature": "z" * 2000, "at": at}]}),
    "unknown": lambda at: {"type": f"type-{at}" * 40, "x": "u" * 9000},
    "ids": lambda at: {**chunk({"content": "a"}), "id": f"{at}" * 500},
    "controls": lambda _: chunk({"content": "\x00" * 3000}),
    "planes": lambda _: chunk({"content": "\U0001f600" * 3000}),
    "quotes": lambda _: {"type": "of.tomorrow", "at": '"' * 9000},
    "keys": lambda at: chunk({f"{at:090}": 1}),
    "markup": lambda _: chunk(
        {"content": '<tool_call>{"name": "f", "arguments": {"a": "%s"}}</tool_call>' % ("v" * 500)}
    ),
    "reasoning": lambda _: chunk({"reasoning_content": "\x1f" * 500, "content": "\x1f" * 500}),
    "signature": lambda at: chunk({"thinking_blocks": [{"signature": "s" * 900, "at": at}]}),
    "odd": lambda _: tools(
        {"index": 0, "id": {"a": "b" * 1000}, "function": {"name": ["c" * 1000], "arguments": ""}}
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_an_output_stays_within_a_part(kind):
    made = assembler("chat.completions", *(sse(HOSTILE[kind](at)) for at in range(1500)))
    assert len(made.encode()) <= 256 * 1024
    assert json.loads(made.encode())["stream"]["chunks"] == 1500


def test_deep_and_broken_json_is_kept_as_it_came():
    deep = b"[" * 100_000 + b"]" * 100_000
    made = assembler(
        "chat.completions", sse(b'{"choices":' + deep + b"}"), sse(chunk({"content": "a"}, "stop"))
    )
    assert text(made.output()) == "a"
    nested = tools({"index": 0, "id": "A", "function": {"name": "f", "arguments": deep.decode()[:4000]}})
    assert calls(assembler("chat.completions", sse(nested)).output())[0].arguments.state == "incomplete"
    whole = Assembler("chat.completions", streamed=False)
    whole.answer(deep)
    assert len(whole.encode()) < 256 * 1024


@pytest.mark.parametrize(
    "said",
    [
        "<tool_call>",
        "<function=",
        "```json\n{",
        "[TOOL_CALLS]",
        "<think>",
        "<|DSML|calls>",
        '<|DSML|invoke name="f">',
        "<tool_call><function=f>",
        "<tool_call><function=f><parameter=q>",
        "<|tool_calls_section_begin|><|tool_call_begin|>",
        "{",
        '[TOOL_CALLS]f{"a":',
    ],
)
def test_many_marks_cost_little_and_are_bounded(said):
    made = assembler("chat.completions", sse(*(chunk({"content": said * 1000}) for _ in range(20))))
    began = time.thread_time()
    assert len(made.output().markup) <= Limits().markup
    assert time.thread_time() - began < 1


def _cost(api: str, piece: bytes, count: int) -> float:
    made = Assembler(api)
    for _ in range(count):
        made.feed(piece)
    began = time.thread_time()
    for _ in range(200):
        made.feed(piece)
    return time.thread_time() - began


@pytest.mark.parametrize("api", ALL)
def test_a_chunk_costs_the_same_however_many_came(api):
    """The middle of a stream, again and again: first few, then thousands, text and calls past their bounds."""
    stream = ALL[api]
    piece = b"".join(stream.pieces[1 : stream.finish])
    early, late = (min(_cost(api, piece, count) for _ in range(2)) for count in (10, 1000))
    assert late < 4 * early + 0.01


def test_bytes_that_make_no_event_are_not_joined_again_and_again():
    piece = b"x" * 64
    early, late = (min(_cost("chat.completions", piece, count) for _ in range(3)) for count in (10, 20_000))
    assert late < 4 * early + 0.01
