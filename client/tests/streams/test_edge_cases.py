"""What streams do at their edges: pieces, odd chunks, stopped streams, unknown shapes."""

import json
from typing import Any

import msgspec
import pytest

from client.tests.streams.made import ALL
from client.tests.streams.wire import (
    DONE,
    assembler,
    brief,
    calls,
    chat,
    chunk,
    named,
    output,
    sse,
    text,
    tools,
)
from custody_client.streams import Assembler
from custody_client.streams.output import Fragment


def piece(arguments: str | None, **more: Any) -> dict[str, Any]:
    return {**more, "function": {"arguments": arguments}}


def fragments(*pieces: dict[str, Any]) -> list[Fragment]:
    given = chat(sse(*(tools(one) for one in pieces)))
    assert len(calls(given)) == 1
    return calls(given)[0].arguments.fragments


def notes(*pieces: dict[str, Any]) -> list[str]:
    return chat(sse(*(tools(one) for one in pieces))).notes


FIRST = {"index": 0, "id": "c1", "function": {"name": "ls"}}


def test_19_pieces_of_one_chunk_and_of_several_are_one_call():
    given = chat(sse(tools(FIRST, piece('{"', index=0)), tools(piece('p":1}', index=0))))
    assert brief(given) == [("c1", "ls", '{"p":1}')]
    assert calls(given)[0].arguments.fragments == [Fragment(0), Fragment(0, 2), Fragment(1, 5)]


def test_19_null_and_missing_are_kept_apart():
    assert fragments(FIRST, piece(None, index=0), {"index": 0, "function": {}}, piece("", index=0)) == [
        Fragment(0),
        Fragment(1, None),
        Fragment(2),
        Fragment(3, 0),
    ]
    assert fragments(FIRST, piece("{", index=None))[1] == Fragment(1, 1, index=None)
    assert fragments(FIRST, piece("{"))[1] == Fragment(1, 1, missing=("index",))
    assert fragments(FIRST, piece("{", index=0, id=None))[1] == Fragment(1, 1, id=None)


def test_19_a_stream_whose_index_is_null():
    assert notes(FIRST, piece("{}", index=None)) == ["index-null"]
    assert notes(FIRST, piece("{}")) == ["index-missing"]


def test_19_a_stream_that_begins_at_index_one():
    given = chat(sse(tools({**FIRST, "index": 1}), tools(piece("{}", index=1))))
    assert brief(given) == [("c1", "ls", "{}")]
    assert (calls(given)[0].ordinal, calls(given)[0].wire_index) == (0, 1)
    assert given.notes == ["index-gap"]


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ({"index": 0, "id": None, "function": {"name": "f"}}, "id-null"),
        ({"index": 0, "function": {"name": "f"}}, "id-missing"),
        ({"index": 0, "id": "", "function": {"name": "f"}}, "id-empty"),
        ({"index": 0, "id": "null", "function": {"name": "f"}}, "id-empty"),
        ({"index": 0, "id": 7, "function": {"name": "f"}}, "id-empty"),
    ],
)
def test_19_a_first_piece_without_an_id_is_said_and_a_later_one_fills_it(first, said):
    given = chat(sse(tools(first), tools(piece("{}", index=0, id="late"))))
    assert brief(given) == [("late", "f", "{}")]
    assert given.notes == [said]


def test_19_conflicting_ids_and_names_are_said():
    assert notes(FIRST, piece("{}", index=0, id="c2")) == ["id-changed"]
    assert notes(FIRST, {"index": 1, "id": "c1", "function": {"name": "f"}}) == ["id-repeated"]


def test_19_arguments_that_end_early_are_incomplete_and_wrong_ones_invalid():
    early = chat(sse(tools(FIRST), tools(piece('{"p":', index=0))))
    assert calls(early)[0].arguments.state == "incomplete"
    ended = chat(sse(tools(FIRST), tools(piece('{"p":', index=0)), chunk({}, "tool_calls")), DONE)
    assert calls(ended)[0].arguments.state == "invalid-json"
    assert calls(chat(sse(tools(FIRST), chunk({}, "stop")), DONE))[0].arguments.state == "empty"


@pytest.mark.parametrize("arguments", [17, True, ["a"], {"a": {"b": [1.50]}}])
def test_19_arguments_that_are_no_text_are_kept_as_json(arguments):
    given = chat(sse(tools({**FIRST, "function": {"name": "ls", "arguments": arguments}})))
    assert json.loads(calls(given)[0].arguments.raw) == arguments


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": 7},
        {"choices": [7, None, "x", []]},
        {"choices": [{"index": "a", "delta": 7}]},
        {"choices": [{"index": None, "delta": {"tool_calls": 7}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [7, None]}}]},
        {
            "choices": [
                {"index": 0, "delta": {"tool_calls": [{"index": [], "id": {}, "function": {"name": 7}}]}}
            ]
        },
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": "f"}]}}]},
        {"choices": [{"index": 0, "delta": {"content": {"a": 1}, "refusal": 7, "reasoning": 7, "role": []}}]},
        {
            "choices": [
                {"index": 0, "delta": {"content": [7, {"type": "image_url"}], "audio": 7, "new": {"a": 1}}}
            ]
        },
        {"choices": [{"index": 0, "delta": {"reasoning_details": [7], "thinking_blocks": 7}}], "usage": 7},
        {"choices": [], "usage": {"prompt_tokens": "7", "completion_tokens": True}, "x_groq": 7},
        {"choices": [{"index": 0, "delta": {"function_call": 7}, "finish_reason": {"a": 1}}]},
    ],
)
def test_19_nothing_that_is_odd_raises_or_ends_what_is_read(odd):
    given = chat(sse(chunk({"content": "before "}), odd, chunk({"content": "after"}, "stop")), DONE)
    assert text(given) == "before after"
    assert given.stream.state == "completed"
    assert (given.usage.input, given.usage.output, given.usage.source) == (None, None, "none")


def test_19_what_cannot_be_assembled_is_kept_as_it_came():
    start = {"type": "content_block_start", "index": [], "content_block": {"type": "text", "text": "x"}}
    given = output("anthropic.messages", named(start))
    assert given.notes == ["assembly-failed:TypeError"]
    assert given.unknown is not msgspec.UNSET
    assert json.loads(given.unknown.kept[0].raw) == start


def test_20_chunks_without_choices_and_unknown_events():
    filtered = {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    unknown = b'{"type":"new.event","value":1.10}'
    given = chat(sse(filtered, chunk({"content": "a"}), unknown, chunk({}, "stop"), usage), DONE)
    assert (given.usage.input, given.usage.output) == (5, 2)
    assert given.unknown is not msgspec.UNSET
    assert given.unknown.count == 1
    assert (given.unknown.kept[0].name, given.unknown.kept[0].raw, given.unknown.kept[0].seq) == (
        "new.event",
        unknown.decode(),
        2,
    )
    assert given.shape is msgspec.UNSET


@pytest.mark.parametrize("api", ["responses", "anthropic.messages", "bedrock.converse"])
def test_20_a_delta_for_a_block_never_opened(api):
    events: dict[str, dict[str, Any]] = {
        "responses": {"type": "response.function_call_arguments.delta", "output_index": 4, "delta": "{}"},
        "anthropic.messages": {
            "type": "content_block_delta",
            "index": 4,
            "delta": {"type": "input_json_delta", "partial_json": "{}"},
        },
        "bedrock.converse": {
            "contentBlockDelta": {"contentBlockIndex": 4, "delta": {"toolUse": {"input": "{}"}}}
        },
    }
    made = Assembler(api)
    made.event(events[api])
    given = made.output()
    assert brief(given) == [(None, None, "{}")]
    assert given.notes == ["delta-for-unopened-block"]


@pytest.mark.parametrize("api", ALL)
def test_20_unknown_events_are_counted_and_the_first_are_kept(api):
    made = Assembler(api)
    for number in range(100):
        made.event({"type": "of.tomorrow", "number": number})
    given = made.output()
    assert given.unknown is not msgspec.UNSET
    assert (given.unknown.count, len(given.unknown.kept)) == (100, 16)
    assert given.shape == "unrecognised"


def test_21_a_stopped_stream_has_its_text_its_cause_and_unknown_usage():
    def stopped() -> Assembler:
        return assembler("chat.completions", sse(*(chunk({"content": word}) for word in ("a", "b", "c"))))

    closed, reset = stopped(), stopped()
    closed.cancelled()
    reset.failed("ConnectionResetError")
    assert [text(one.output()) for one in (closed, reset)] == ["abc", "abc"]
    assert [one.state for one in (closed, reset)] == ["cancelled", "interrupted"]
    assert reset.output().stream.error is not None
    assert closed.output().choices[0].finish is None
    assert json.loads(closed.encode())["usage"] == {
        "input": None,
        "output": None,
        "reasoning": None,
        "cache_read": None,
        "cache_write": None,
        "source": "none",
    }


@pytest.mark.parametrize("api", [*ALL, "realtime", ""])
@pytest.mark.parametrize(
    "body", [b"{}", b'{"realtime":{"a":1.10}}', b"[]", b"<html>", b"\xff\xfe", b"", b"null", b"[1]"]
)
def test_22_an_answer_of_an_unknown_shape_is_kept_and_marked(api, body):
    made = Assembler(api, streamed=False)
    made.answer(body)
    given = json.loads(made.encode())
    assert given["shape"] == "unrecognised"
    kept = given["unknown"]["kept"][0]
    assert (kept["shape"], kept["raw"]) == ("unrecognised", "//4=" if body == b"\xff\xfe" else body.decode())
    assert given["choices"] == []


def test_22_a_stream_of_an_unknown_shape_is_kept_and_marked():
    for data in (sse({"realtime": 1}), b"<html>no</html>", b"data: not json\n\n", b'{"a":\n 1}\n', b"{"):
        given = output("chat.completions", data)
        assert given.shape == "unrecognised", data
        assert given.unknown is not msgspec.UNSET
        assert given.stream.state == "interrupted"


def test_22_an_empty_stream_is_not_of_an_unknown_shape():
    given = output("chat.completions")
    assert given.shape is msgspec.UNSET
    assert (given.choices, given.stream.state, given.stream.chunks) == ([], "interrupted", 0)


def test_halves_of_surrogate_pairs_are_put_together_or_kept():

    halves = sse(
        b'{"choices":[{"delta":{"content":"a\\ud83d"}}]}', b'{"choices":[{"delta":{"content":"\\ude00"}}]}'
    )
    assert text(chat(halves)) == "a\U0001f600"


def test_half_a_pair_alone_is_encoded_as_its_escape():
    made = assembler("chat.completions", b'data: {"choices":[{"delta":{"content":"done \\ud83d"}}]}\n\n')
    assert b'"text":"done \\ud83d"' in made.encode()


def test_what_msgspec_refuses_is_read_all_the_same():
    odd = b'{"choices":[{"index":0,"delta":{"content":"a"},"logprobs":NaN}],"n":1e999}'
    assert text(chat(sse(odd))) == "a"
    assert chat(sse(odd)).notes == ["json-not-strict"]
    assert text(chat(b'data: {"choices":[{"delta":{"content":"a\xff"}}]}\n\n')) == "a\ufffd"


def test_empty_fields_of_forms_that_are_not_meant_are_nothing():
    """As Snowflake fills in whatever a message may have."""
    call = {
        "id": "A",
        "type": "function",
        "custom": {"input": "", "name": ""},
        "function": {"arguments": "{}", "name": "f"},
    }
    message = {
        "role": "assistant",
        "content": "a",
        "audio": {"data": "", "id": "", "transcript": ""},
        "function_call": {"arguments": "", "name": ""},
        "refusal": "",
        "tool_calls": [call],
    }
    whole = Assembler("chat.completions", streamed=False)
    whole.answer(json.dumps({"choices": [{"finish_reason": "", "index": 0, "message": message}]}).encode())
    given = whole.output()
    assert [type(item).__name__ for item in given.choices[0].items] == ["Text", "ToolCall"]
    assert brief(given) == [("A", "f", "{}")]
    assert given.choices[0].finish is None
    assert given.notes == ["finish-missing"]
