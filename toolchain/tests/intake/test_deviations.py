"""What providers do differently, numbered as the files of the client: what gives calls, and what is refused by name.

Each is read twice: out of the chunks themselves, and out of what the client's assembler recorded of them.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from client.tests.streams import made
from custody_client.streams import Assembler
from custody_toolchain.intake import (
    Dialect,
    Limits,
    Result,
    Why,
    permitting,
    read_answer,
    read_output,
    read_stream,
)
from toolchain.tests.intake import test_native
from toolchain.tests.intake.goldens import GOLDENS
from toolchain.tests.intake.written import BAR

SHARED = Path(__file__).parents[3] / "client" / "tests" / "streams" / "deviations"
DIALECTS = permitting(dialects=list(Dialect))
Calls = list[tuple[str | None, str, dict[str, Any]]]


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": "c-1",
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}],
    }


def tools(*pieces: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return chunk({"tool_calls": list(pieces)}, finish)


def call(arguments: Any, name: str | None = "f", **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def both(*chunks: Any) -> Result:
    """Read chunks, and what was recorded of them; both must say the same."""
    direct = read_stream("chat.completions", [*chunks, "[DONE]"], DIALECTS)
    assembler = Assembler("chat.completions", provider="openai", host="localhost")
    for one in chunks:
        assembler.event(one)
    assembler.event("[DONE]")
    agree(direct, read_output(assembler.encode(), DIALECTS))
    return direct


def agree(direct: Result, recorded: Result) -> None:
    def said(result: Result) -> Any:
        if result.refusal is not None:
            return result.refusal.why
        return [(one.call_id, one.name, one.arguments, one.opaque) for one in result.actions]

    assert said(direct) == said(recorded)
    assert direct.native.finish == recorded.native.finish
    assert direct.native.stream == recorded.native.stream


def calls(result: Result) -> Calls:
    assert result.refusal is None, str(result.refusal)
    return [(action.call_id, action.name, action.arguments) for action in result.actions]


def test_01_an_empty_id_and_a_null_name_continue_their_call():
    for no_id in ("", None):
        result = both(
            tools(call("", index=0, id="call_A")),
            tools(call('{"a":', None, index=0, id=no_id)),
            tools(call("1}", None, index=0, id=no_id), finish="stop"),
        )
        assert calls(result) == [("call_A", "f", {"a": 1})]


def test_02_an_index_that_is_used_again_by_a_named_call_with_an_id_of_its_own_is_another_call():
    result = both(tools(call("{}", index=0, id="A")), tools(call("{}", index=0, id="B"), finish="tool_calls"))
    assert calls(result) == [("A", "f", {}), ("B", "f", {})]
    assert "index-reused" in result.notes


def test_03_an_id_that_changes_within_a_call_is_refused():
    result = both(
        tools(call('{"city":"', index=0, id="call_b49e")),
        tools(call('Paris"}', "", index=0, id="call_ed82"), finish="tool_calls"),
    )
    assert result.refusal is not None
    assert (result.refusal.why, result.refusal.call) == (Why.ID_CHANGED, 0)


def test_04_without_an_index_ids_decide_and_what_is_sent_along_is_kept():
    kept = {"google": {"thought_signature": "c2ln"}}
    result = both(
        tools(call('{"q":1}', id="c1", extra_content=kept)),
        tools(call('{"q":', "g", id="c2")),
        tools({"function": {"arguments": "2}"}}, finish="stop"),
    )
    assert calls(result) == [("c1", "f", {"q": 1}), ("c2", "g", {"q": 2})]
    assert result.actions[0].opaque == {"extra_content": kept}


def test_05_arguments_may_be_an_object():
    result = both(tools(call({"city": "Rome"}, index=0, id="A"), finish="tool_calls"))
    assert calls(result) == [("A", "f", {"city": "Rome"})]


def test_06_the_text_null_is_no_id_and_is_refused():
    result = both(
        tools(call('{"a":1}', index=0, id="null"), call('{"b":2}', "g", index=0, id="null"), finish="stop")
    )
    assert result.refusal is not None
    assert (result.refusal.why, result.refusal.call) == (Why.ID_IS_THE_TEXT_NULL, 0)
    message = {"tool_calls": [call("{}", id="null")]}
    body = {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}
    whole = read_answer("chat.completions", body)
    assert whole.refusal is not None
    assert whole.refusal.why is Why.ID_IS_THE_TEXT_NULL


@pytest.mark.parametrize("name", [name for name in GOLDENS if name.startswith("dsml")])
def test_07_dsml_in_content_goes_through_the_markup_adapter(name):
    golden = GOLDENS[name]
    pieces = [golden.text[at : at + 3] for at in range(0, len(golden.text), 3)]
    result = both(*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"))
    assert [(one.name, one.arguments) for one in result.actions] == [(one[0], one[1]) for one in golden.calls]
    assert {one.dialect for one in result.actions} == {Dialect.DSML}


def test_07_an_unterminated_block_is_refused_and_a_stray_mark_beside_a_call_is_not():
    text = GOLDENS["dsml"].text
    cut = both(chunk({"content": text[:-20]}), chunk({}, "stop"))
    assert cut.refusal is not None
    assert cut.refusal.why is Why.UNCLOSED
    stray = both(
        chunk({"content": f"<{BAR}DSML{BAR}function_calls>"}),
        tools(call("{}", index=0, id="A"), finish="tool_calls"),
    )
    assert calls(stray) == [("A", "f", {})]
    assert "markup-beside-calls" in stray.notes
    alone = both(chunk({"content": f"<{BAR}DSML{BAR}function_calls>"}), chunk({}, "stop"))
    assert alone.refusal is not None


@pytest.mark.parametrize("name", [name for name in GOLDENS if not name.startswith("dsml")])
def test_08_tags_in_content_go_through_the_markup_adapter(name):
    golden = GOLDENS[name]
    half = len(golden.text) // 2
    result = both(chunk({"content": golden.text[:half]}), chunk({"content": golden.text[half:]}, "stop"))
    assert [(one.name, one.arguments) for one in result.actions] == [(one[0], one[1]) for one in golden.calls]


def test_08_a_prefix_of_a_mark_that_leaked_is_no_plan():
    assert calls(both(chunk({"content": "Well <function"}, "stop"))) == []
    leaked = both(chunk({"content": "<function=f"}, "stop"))
    assert leaked.refusal is not None


def test_09_reasoning_has_many_names_and_none_of_them_is_a_plan():
    markup = GOLDENS["hermes"].text
    result = both(
        chunk({"reasoning_content": markup, "reasoning": markup}),
        chunk({"reasoning": markup, "reasoning_details": [{"type": "reasoning.text", "text": markup}]}),
        chunk({"content": f"<think>{markup}</think>"}),
        tools(call("{}", index=0, id="A"), finish="tool_calls"),
    )
    assert calls(result) == [("A", "f", {})]


def test_10_chunks_without_choices_or_without_a_delta_hold_nothing():
    result = both(
        {"id": "", "model": "", "object": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
        tools(call("{}", index=0, id="A")),
        {"choices": [{"index": 0, "finish_reason": None, "content_filter_results": {}}]},
        chunk({}, "tool_calls"),
    )
    assert calls(result) == [("A", "f", {})]


def test_11_pieces_of_two_calls_may_come_in_turns_and_no_finish_at_all():
    result = both(
        tools(call("", index=0, id="A"), call("", "g", index=1, id="B")),
        tools(
            {"index": 1, "function": {"arguments": '{"b":'}}, {"index": 0, "function": {"arguments": '{"a":'}}
        ),
        tools(
            {"index": 0, "id": None, "function": {"arguments": "1}"}},
            {"index": 1, "id": None, "function": {"arguments": "2}"}},
        ),
    )
    assert calls(result) == [("A", "f", {"a": 1}), ("B", "g", {"b": 2})]
    assert result.native.finish is None


def test_12_a_finish_of_stop_is_no_sign_that_there_are_no_calls():
    result = both(tools(call("{}", index=0, id="A"), finish="stop"))
    assert calls(result) == [("A", "f", {})]
    assert result.native.finish == "stop"


def test_13_a_message_beside_a_delta_is_not_read():
    message = {"role": "assistant", "tool_calls": [call("{}", "other", id="X")]}
    result = both(
        {"choices": [{**tools(call("", index=0, id="A"))["choices"][0], "message": message}]},
        {
            "choices": [
                {**tools({"index": 0, "function": {"arguments": "{}"}})["choices"][0], "message": message}
            ]
        },
        chunk({}, "tool_calls"),
    )
    assert calls(result) == [("A", "f", {})]


REFUSED = {"03-id-changes": Why.ID_CHANGED, "06-id-is-the-text-null": Why.ANSWER_FAILED}
COUNTS = {
    "01-empty-id-on-continuation": 1,
    "02-index-reused": 2,
    "04-no-index": 2,
    "05-arguments-as-object": 1,
    "07-dsml-in-content": 1,
    "08-hermes-tags": 2,
    "09-reasoning-names": 0,
    "10-azure": 0,
    "11-litellm": 2,
    "12-finish-stop-with-calls": 1,
    "13-cumulative-message": 0,
}


@pytest.mark.parametrize("name", [*REFUSED, *COUNTS])
def test_the_recordings_of_the_client_are_read_the_same_with_and_without_it(name):
    lines = (SHARED / f"{name}.jsonl").read_bytes().splitlines()
    direct = read_stream("chat.completions", [*lines, "[DONE]"], DIALECTS)
    assembler = Assembler("chat.completions", provider="openai", host="localhost")
    for line in [*lines, b"[DONE]"]:
        assembler.feed(b"data: " + line + b"\n\n")
    recorded = read_output(assembler.encode(), DIALECTS)
    if name in REFUSED:
        for result in (direct, recorded):
            assert result.refusal is not None
            assert result.actions == ()
        # This one ends with an error too, which says enough.
        assert recorded.refusal is not None
        assert recorded.refusal.why in {REFUSED[name], Why.ID_IS_THE_TEXT_NULL}
    else:
        agree(direct, recorded)
        assert len(direct.actions) == COUNTS[name]


# In these samples the model refuses beside a call.
SAMPLE_REFUSED = {"responses": Why.ANSWER_REFUSED}


@pytest.mark.parametrize("api", sorted(made.ALL))
def test_streams_of_every_provider_are_read_the_same_out_of_what_the_client_recorded(api):
    stream = made.ALL[api]
    assembler = Assembler(stream.api, provider="p", host="localhost")
    assembler.feed(stream.data)
    recorded = read_output(json.loads(assembler.encode()))
    assert (recorded.refusal and recorded.refusal.why) == SAMPLE_REFUSED.get(api)
    for api_of_test, chunks in test_native.STREAMS.items():
        if api_of_test == stream.api:
            other = Assembler(stream.api, provider="p", host="localhost")
            for one in chunks([test_native.RAW]):
                other.event(one)
            assert calls(read_output(other.encode())) == test_native.BOTH


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([call("{}", index=0, id=None)], Why.ID_NULL),
        ([call("{}", index=0, id="")], Why.ID_EMPTY),
        ([call("{}", index=0)], Why.ID_MISSING),
        ([call("{}", index=0, id=7)], Why.WRONG_TYPE),
        ([call("{}", None, index=0, id="A")], Why.NAME_MISSING),
        ([call("{}", index="0", id="A")], Why.WRONG_TYPE),
        ([call("{}", index=0, id="A"), call("{}", index=1, id="A")], Why.ID_REPEATED),
        ([call("{", index=0, id="A"), call("}", "g", index=0, id="A")], Why.NAME_CHANGED),
        ([call("{}", index=0, id="A"), call("", None, index=1, id=None)], Why.ID_NULL),
        ([call('{"a":NaN}', index=0, id="A")], Why.NOT_A_NUMBER),
        ([call('{"a":1,"a":1}', index=0, id="A")], Why.DUPLICATE_KEY),
        ([call("{", index=0, id="A")], Why.CUT),
        ([call("[" * 10_000, index=0, id="A")], Why.TOO_DEEP),
    ],
)
def test_what_is_refused_of_chunks_is_refused_of_what_was_recorded_of_them(pieces, expected):
    result = both(*(tools(piece) for piece in pieces), chunk({}, "tool_calls"))
    assert result.refusal is not None
    assert result.refusal.why is expected


def test_an_output_that_was_not_recorded_whole_is_refused():
    assembler = Assembler("chat.completions", provider="openai", host="localhost")
    assembler.event(tools(call('{"a":"' + "x" * 100_000 + '"}', index=0, id="A"), finish="tool_calls"))
    assembler.event("[DONE]")
    result = read_output(assembler.encode(), permitting(limits=Limits(parameter_bytes=1024 * 1024)))
    assert result.refusal is not None
    assert (result.refusal.why, result.refusal.call) == (Why.NOT_RECORDED_WHOLE, 0)
    many = Assembler("chat.completions", provider="openai", host="localhost")
    for at in range(200):
        many.event(tools(call("{}", index=at, id=f"A{at}")))
    many.event(chunk({}, "tool_calls"))
    many.event("[DONE]")
    dropped = read_output(many.encode(), permitting(limits=Limits(actions=500)))
    assert dropped.refusal is not None
    assert dropped.refusal.why is Why.NOT_RECORDED_WHOLE


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"schema": "observable-output/2", "choices": [], "stream": {"state": "completed"}},
        {"schema": "observable-output/1", "choices": {}, "stream": {"state": "completed"}},
        {
            "schema": "observable-output/1",
            "choices": [],
            "stream": {"state": "completed"},
            "shape": "unrecognised",
        },
        "[]",
        b"\x00",
        None,
    ],
)
def test_what_is_no_recorded_output_is_refused(value):
    assert read_output(value).refusal is not None


def test_a_recorded_stream_that_broke_is_refused_also_without_calls():
    for end, expected in (("failed", Why.CUT), ("cancelled", Why.CUT), ("error", Why.ANSWER_FAILED)):
        assembler = Assembler("chat.completions", provider="openai", host="localhost")
        assembler.event(chunk({"content": "Let me"}))
        if end == "failed":
            assembler.failed("ReadError")
        elif end == "cancelled":
            assembler.cancelled()
        else:
            assembler.event({"error": {"message": "no"}})
        result = read_output(assembler.encode())
        assert result.refusal is not None
        assert result.refusal.why is expected
