"""Providers' own calls, whole and in chunks: which are read, which are refused by name, what is kept beside them."""

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from custody_toolchain.intake import (
    Dialect,
    Limits,
    Result,
    Source,
    StreamReader,
    Truncated,
    Why,
    permitting,
    read_answer,
    read_stream,
)

SALVAGE = permitting(truncated=Truncated.SALVAGE)
ARGUMENTS = {"city": "Köln", "deep": {"a": [1, 2.5, None]}}
RAW = json.dumps(ARGUMENTS, ensure_ascii=False)


def found(result: Result) -> list[tuple[str | None, str, dict[str, Any]]]:
    assert result.refusal is None, str(result.refusal)
    return [(action.call_id, action.name, action.arguments) for action in result.actions]


def why(result: Result) -> tuple[Why, int | None]:
    assert result.refusal is not None
    assert result.actions == ()
    return result.refusal.why, result.refusal.call


# -- one stream of each format, with two calls; `argument` is cut into pieces -----------------------------------------


def chat(pieces: list[str], finish: str | None = "tool_calls") -> list[Any]:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {"id": "chatcmpl-1", "model": "model-a", "choices": [choice]}

    def call(index: int, arguments: str, **more: Any) -> dict[str, Any]:
        name = more.pop("name", None)
        function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
        return {"tool_calls": [{"index": index, "function": function, **more}]}

    return [
        chunk({"role": "assistant", "content": None}),
        chunk(call(0, "", id="A", type="function", name="f")),
        chunk(call(1, "", id="B", type="function", name="g")),
        *(chunk(call(0, piece)) for piece in pieces),
        chunk(call(1, "{}")),
        chunk({}, finish),
        "[DONE]",
    ]


def responses(pieces: list[str], finish: str | None = "completed") -> list[Any]:
    def item(at: int, name: str, arguments: str) -> dict[str, Any]:
        return {
            "type": "function_call",
            "id": f"fc_{at}",
            "call_id": "AB"[at],
            "name": name,
            "arguments": arguments,
            "status": "completed",
        }

    def event(kind: str, at: int, **more: Any) -> dict[str, Any]:
        return {"type": f"response.{kind}", "output_index": at, **more}

    raw = "".join(pieces)
    response = {
        "id": "resp_1",
        "model": "model-a",
        "status": finish,
        "output": [item(0, "f", raw), item(1, "g", "{}")],
    }
    return [
        {"type": "response.created", "response": {"id": "resp_1", "model": "model-a", "output": []}},
        event("output_item.added", 0, item=item(0, "f", "")),
        *(event("function_call_arguments.delta", 0, delta=piece) for piece in pieces),
        event("function_call_arguments.done", 0, arguments=raw),
        event("output_item.done", 0, item=item(0, "f", raw)),
        event("output_item.added", 1, item=item(1, "g", "")),
        event("output_item.done", 1, item=item(1, "g", "{}")),
        {"type": "response.completed", "response": response},
    ]


def messages(pieces: list[str], finish: str | None = "tool_use") -> list[Any]:
    def start(index: int, block: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_start", "index": index, "content_block": block}

    def delta(index: int, piece: str) -> dict[str, Any]:
        return {
            "type": "content_block_delta",
            "index": index,
            "delta": {"type": "input_json_delta", "partial_json": piece},
        }

    return [
        {
            "type": "message_start",
            "message": {"id": "msg_1", "model": "model-a", "role": "assistant", "content": []},
        },
        start(0, {"type": "text", "text": ""}),
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hm."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "ping"},
        start(1, {"type": "tool_use", "id": "A", "name": "f", "input": {}}),
        *(delta(1, piece) for piece in ["", *pieces]),
        {"type": "content_block_stop", "index": 1},
        start(2, {"type": "tool_use", "id": "B", "name": "g", "input": {}}),
        {"type": "content_block_stop", "index": 2},
        {"type": "message_delta", "delta": {"stop_reason": finish}},
        {"type": "message_stop"},
    ]


def converse(pieces: list[str], finish: str | None = "tool_use") -> list[Any]:
    def start(index: int, call_id: str, name: str) -> dict[str, Any]:
        tool = {"toolUseId": call_id, "name": name}
        return {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": tool}}}

    def delta(index: int, **said: Any) -> dict[str, Any]:
        return {"contentBlockDelta": {"contentBlockIndex": index, "delta": said}}

    return [
        {"messageStart": {"role": "assistant"}},
        delta(0, text="Hm."),
        {"contentBlockStop": {"contentBlockIndex": 0}},
        start(1, "A", "f"),
        *(delta(1, toolUse={"input": piece}) for piece in pieces),
        {"contentBlockStop": {"contentBlockIndex": 1}},
        start(2, "B", "g"),
        delta(2, toolUse={"input": "{}"}),
        {"contentBlockStop": {"contentBlockIndex": 2}},
        {"messageStop": {"stopReason": finish}},
        {"metadata": {"usage": {"inputTokens": 1}}},
    ]


STREAMS: dict[str, Callable[[list[str]], list[Any]]] = {
    "chat.completions": chat,
    "responses": responses,
    "anthropic.messages": messages,
    "bedrock.converse": converse,
}
BOTH = [("A", "f", ARGUMENTS), ("B", "g", {})]

WHOLE: dict[str, dict[str, Any]] = {
    "chat.completions": {
        "id": "chatcmpl-1",
        "model": "model-a",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "content": None,
                    "tool_calls": [
                        {"id": "A", "type": "function", "function": {"name": "f", "arguments": RAW}},
                        {"id": "B", "type": "function", "function": {"name": "g", "arguments": "{}"}},
                    ],
                },
            }
        ],
    },
    "responses": responses([RAW])[-1]["response"],
    "anthropic.messages": {
        "id": "msg_1",
        "type": "message",
        "model": "model-a",
        "content": [
            {"type": "text", "text": "Hm."},
            {"type": "tool_use", "id": "A", "name": "f", "input": ARGUMENTS},
            {"type": "tool_use", "id": "B", "name": "g", "input": {}},
        ],
        "stop_reason": "tool_use",
    },
    "gemini": {
        "responseId": "gem-1",
        "modelVersion": "model-a",
        "candidates": [
            {
                "index": 0,
                "finishReason": "STOP",
                "content": {
                    "parts": [
                        {"text": "Hm.", "thought": True},
                        {
                            "functionCall": {"id": "A", "name": "f", "args": ARGUMENTS},
                            "thoughtSignature": "c2ln",
                        },
                        {"functionCall": {"id": "B", "name": "g"}},
                    ]
                },
            }
        ],
    },
    "bedrock.converse": {
        "output": {
            "message": {
                "role": "assistant",
                "content": [
                    {"text": "Hm."},
                    {"toolUse": {"toolUseId": "A", "name": "f", "input": ARGUMENTS}},
                    {"toolUse": {"toolUseId": "B", "name": "g", "input": {}}},
                ],
            }
        },
        "stopReason": "tool_use",
    },
    "ollama.chat": {
        "model": "model-a",
        "done": True,
        "done_reason": "stop",
        "message": {
            "tool_calls": [
                {"id": "A", "function": {"name": "f", "arguments": ARGUMENTS}},
                {"id": "B", "function": {"name": "g", "arguments": {}}},
            ]
        },
    },
}


@pytest.mark.parametrize("api", WHOLE)
def test_a_whole_answer_gives_its_calls_decoded_or_as_json(api):
    body = WHOLE[api]
    for given in (body, json.dumps(body), json.dumps(body, ensure_ascii=False).encode()):
        result = read_answer(api, given)
        assert found(result) == BOTH
        assert result.source is Source.NATIVE
        assert result.native.response is given
        assert result.native.call_ids == ("A", "B")
        assert result.native.model == (None if api == "bedrock.converse" else "model-a")
        assert result.native.finish == (body.get("stop_reason") or result.native.finish)
        assert result.native.stream == "completed"


@pytest.mark.parametrize("api", STREAMS)
def test_a_stream_gives_the_same_wherever_its_arguments_are_cut(api):
    for at in range(len(RAW) + 1):
        assert found(read_stream(api, STREAMS[api]([RAW[:at], RAW[at:]]))) == BOTH
    assert found(read_stream(api, STREAMS[api](list(RAW)))) == BOTH


@pytest.mark.parametrize("api", STREAMS)
def test_a_stream_that_ends_after_any_chunk_gives_all_or_nothing(api):
    chunks = STREAMS[api](list(RAW))
    for at in range(len(chunks)):
        result = read_stream(api, chunks[:at])
        if result.refusal is None:
            assert found(result) == BOTH
            assert result.native.stream in {"finished-no-terminal", "completed"}
        else:
            assert result.refusal.why in {Why.CUT, Why.UNKNOWN_SHAPE}
            assert result.actions == ()


@pytest.mark.parametrize("api", STREAMS)
def test_what_was_closed_before_a_cut_is_salvaged_only_where_that_is_the_policy_and_marked(api):
    chunks = STREAMS[api](list(RAW))
    counts = []
    for at in range(len(chunks)):
        result = read_stream(api, chunks[:at], SALVAGE)
        if result.salvaged:
            assert found(result) == BOTH[: len(result.actions)]
            assert all(action.salvaged for action in result.actions)
            counts.append(len(result.actions))
        else:
            assert result.actions == () or found(result) == BOTH
    assert 1 in counts


@pytest.mark.parametrize("api", STREAMS)
def test_a_stream_may_come_as_json_of_its_events(api):
    chunks = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in STREAMS[api]([RAW])]
    assert found(read_stream(api, chunks)) == BOTH
    assert found(read_stream(api, [chunk.encode() for chunk in chunks])) == BOTH


def test_gemini_streams_whole_calls():
    parts = WHOLE["gemini"]["candidates"][0]["content"]["parts"]
    chunks: list[Any] = [{"candidates": [{"index": 0, "content": {"parts": [part]}}]} for part in parts]
    chunks.append({"candidates": [{"index": 0, "finishReason": "STOP"}], "responseId": "gem-1"})
    result = read_stream("gemini", chunks)
    assert found(result) == BOTH
    assert result.actions[0].opaque == {"thoughtSignature": "c2ln"}
    assert why(read_stream("gemini", chunks[:-1])) == (Why.CUT, None)


def test_gemini_gives_no_ids_and_none_is_made_up():
    body = json.loads(json.dumps(WHOLE["gemini"]))
    for part in body["candidates"][0]["content"]["parts"][1:]:
        del part["functionCall"]["id"]
    assert found(read_answer("gemini", body)) == [(None, "f", ARGUMENTS), (None, "g", {})]


def test_gemini_arguments_by_paths_are_refused():
    part = {
        "functionCall": {
            "name": "f",
            "partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}],
            "willContinue": True,
        }
    }
    body = {"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}
    assert why(read_answer("gemini", body)) == (Why.PARTIAL_ARGUMENTS, 0)


def test_ollama_has_no_ids_and_objects_for_arguments():
    lines = [
        {"message": {"tool_calls": [{"function": {"name": "f", "arguments": ARGUMENTS}}]}, "done": False},
        {"message": {"content": ""}, "done": True, "done_reason": "stop"},
    ]
    assert found(read_stream("ollama.chat", lines)) == [(None, "f", ARGUMENTS)]


def test_custom_tools_take_text_that_is_not_read_as_json():
    item = {"type": "custom_tool_call", "id": "ct_1", "call_id": "A", "name": "run", "input": "{not json"}
    result = read_answer("responses", {"output": [item], "status": "completed"})
    action = result.actions[0]
    assert (action.call_id, action.item_id, action.text, action.arguments) == ("A", "ct_1", "{not json", {})
    piece = {"id": "A", "type": "custom", "custom": {"name": "run", "input": "print(1)"}}
    body = {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"tool_calls": [piece]}}]}
    assert read_answer("chat.completions", body).actions[0].text == "print(1)"


def test_tools_of_responses_that_the_caller_runs_have_an_object_for_what_they_do():
    item = {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "A",
        "action": {"type": "click"},
        "status": "completed",
    }
    assert found(read_answer("responses", {"output": [item], "status": "completed"})) == [
        ("A", "computer", {"type": "click"})
    ]


def test_tools_that_the_provider_runs_are_no_actions():
    block = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": 1}}
    assert found(read_answer("anthropic.messages", {"content": [block], "stop_reason": "end_turn"})) == []
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    assert found(read_answer("responses", {"output": [item], "status": "completed"})) == []
    events = [
        {"messageStart": {"role": "assistant"}},
        {
            "contentBlockStart": {
                "contentBlockIndex": 0,
                "start": {"toolUse": {"toolUseId": "A", "name": "s", "type": "server_tool_use"}},
            }
        },
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": {"input": "{}"}}}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"messageStop": {"stopReason": "end_turn"}},
    ]
    assert found(read_stream("bedrock.converse", events)) == []


def test_arguments_are_a_copy_and_the_answer_stays_as_it_came():
    body = json.loads(json.dumps(WHOLE["anthropic.messages"]))
    result = read_answer("anthropic.messages", body)
    result.actions[0].arguments["deep"]["a"].append("changed")
    assert body == WHOLE["anthropic.messages"]


def test_the_exact_json_of_arguments_is_kept_beside_them():
    raw = '{ "n": 1.10, "big": 9007199254740993, "huge": 1e400 }'
    call = {"id": "A", "type": "function", "function": {"name": "f", "arguments": raw}}
    body = {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"tool_calls": [call]}}]}
    action = read_answer("chat.completions", body).actions[0]
    assert action.raw == raw
    assert action.arguments["big"] == 9007199254740993
    assert str(action.arguments["huge"]) == "1E+400"


# -- what is refused ---------------------------------------------------------------------------------------------------


def stream(*pieces: dict[str, Any], finish: str = "tool_calls") -> Result:
    """A chat stream of one chunk for each piece."""
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces]
    return read_stream(
        "chat.completions",
        [*chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}, "[DONE]"],
    )


def piece(arguments: Any = "{}", name: Any = "f", **more: Any) -> dict[str, Any]:
    return {
        "index": 0,
        "id": "A",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
        **more,
    }


def later(arguments: Any = "", index: Any = 0, **more: Any) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": arguments, **more.pop("function", {})}, **more}


WITHOUT_ID = {key: value for key, value in piece().items() if key != "id"}


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([piece(id=None)], (Why.ID_NULL, 0)),
        ([piece(id="")], (Why.ID_EMPTY, 0)),
        ([WITHOUT_ID], (Why.ID_MISSING, 0)),
        ([piece(id="null")], (Why.ID_IS_THE_TEXT_NULL, 0)),
        ([piece(id="None")], (Why.ID_IS_THE_TEXT_NULL, 0)),
        ([piece(id=7)], (Why.WRONG_TYPE, 0)),
        ([piece(id=["A"])], (Why.WRONG_TYPE, 0)),
        ([piece(name=None)], (Why.NAME_MISSING, 0)),
        ([piece(name="")], (Why.NAME_MISSING, 0)),
        ([piece(name=7)], (Why.WRONG_TYPE, 0)),
        ([piece(index="0")], (Why.WRONG_TYPE, 0)),
        ([piece(index=True)], (Why.WRONG_TYPE, 0)),
        ([piece(index=0.0)], (Why.WRONG_TYPE, 0)),
        ([piece(index=-1)], (Why.WRONG_TYPE, 0)),
        ([piece(arguments=7)], (Why.WRONG_TYPE, 0)),
        ([piece(arguments=[])], (Why.WRONG_TYPE, 0)),
        ([piece(), later(index=1, id=None, function={"name": None})], (Why.ID_NULL, 1)),
        ([piece(), later(index=1, id=None, function={"name": "g"})], (Why.ID_NULL, 1)),
        ([piece(), later(index=1)], (Why.ID_MISSING, 1)),
        ([piece(), piece(index=1)], (Why.ID_REPEATED, 1)),
        ([piece("{"), later("}", id="B")], (Why.ID_CHANGED, 0)),
        ([piece("{"), later("}", id="B", function={"name": ""})], (Why.ID_CHANGED, 0)),
        ([piece("{"), later("}", id="null")], (Why.ID_IS_THE_TEXT_NULL, 1)),
        ([piece("{"), later("}", function={"name": "g"})], (Why.NAME_CHANGED, 0)),
        ([piece({"a": 1}), later({"a": 1})], (Why.ARGUMENTS_CONFLICT, 0)),
        ([piece({"a": 1}), later("{}")], (Why.ARGUMENTS_CONFLICT, 0)),
        ([piece("{"), later("]")], (Why.NOT_JSON, 0)),
        ([piece("{")], (Why.CUT, 0)),
        ([piece("{}{}")], (Why.NOT_JSON, 0)),
        ([piece("[]")], (Why.NOT_AN_OBJECT, 0)),
        ([piece("null")], (Why.NOT_AN_OBJECT, 0)),
        ([piece('{"a":1,"a":2}')], (Why.DUPLICATE_KEY, 0)),
        ([piece('{"a":NaN}')], (Why.NOT_A_NUMBER, 0)),
        ([piece('{"a":-Infinity}')], (Why.NOT_A_NUMBER, 0)),
        ([piece('{"a":' + "1" * 65 + "}")], (Why.NUMBER_OUT_OF_RANGE, 0)),
        ([piece('{"a":1e1000}')], (Why.NUMBER_OUT_OF_RANGE, 0)),
        ([piece('{"a":"\\ud800"}')], (Why.LONE_SURROGATE, 0)),
        ([piece('{"\\udc00":1}')], (Why.LONE_SURROGATE, 0)),
        ([piece('{"a":"\ud800"}')], (Why.LONE_SURROGATE, 0)),
        ([piece("\ufeff{}")], (Why.BYTE_ORDER_MARK, 0)),
        ([piece('{"a":"\n"}')], (Why.NOT_JSON, 0)),
        ([piece("[" * 10_000)], (Why.TOO_DEEP, 0)),
        ([piece('{"a":' * 10_000 + "0" + "}" * 10_000)], (Why.TOO_DEEP, 0)),
        ([piece(), piece("{", index=1, id="B")], (Why.CUT, 1)),
    ],
)
def test_what_is_wrong_with_a_call_is_named_and_all_is_refused(pieces, expected):
    assert why(stream(*pieces)) == expected


def test_a_decoded_object_is_checked_as_strictly_as_json():
    values = [
        (float("nan"), Why.NOT_A_NUMBER),
        (float("inf"), Why.NOT_A_NUMBER),
        (10**65, Why.NUMBER_OUT_OF_RANGE),
        ("\ud800", Why.LONE_SURROGATE),
        ({1: 2}, Why.WRONG_TYPE),
        (object(), Why.WRONG_TYPE),
    ]
    for value, expected in values:
        block = {"type": "tool_use", "id": "A", "name": "f", "input": {"a": value}}
        assert why(read_answer("anthropic.messages", {"content": [block], "stop_reason": "tool_use"})) == (
            expected,
            0,
        )


def test_a_decoded_object_may_be_as_deep_as_json_and_no_deeper():
    for depth, expected in ((62, None), (70, (Why.TOO_DEEP, 0)), (10_000, (Why.TOO_DEEP, None))):
        deep: Any = 0
        for _ in range(depth):
            deep = [deep]
        block = {"type": "tool_use", "id": "A", "name": "f", "input": {"a": deep}}
        result = read_answer("anthropic.messages", {"content": [block], "stop_reason": "tool_use"})
        assert (None if expected is None else why(result)) == expected
        assert (expected is None) == (result.refusal is None)


def test_an_answer_that_holds_itself_is_too_deep():
    loop: dict[str, Any] = {}
    loop["a"] = loop
    block = {"type": "tool_use", "id": "A", "name": "f", "input": loop}
    assert why(read_answer("anthropic.messages", {"content": [block]}))[0] is Why.TOO_DEEP
    event: dict[str, Any] = {"type": "response.output_text.delta", "delta": "a"}
    event["output_index"] = event
    assert why(read_stream("responses", [event, event]))[0] is Why.TOO_DEEP


def test_an_object_that_is_shared_by_many_counts_as_often_as_it_is_held():
    shared: Any = {"a": 1}
    for _ in range(40):
        shared = [shared, shared]
    block = {"type": "tool_use", "id": "A", "name": "f", "input": {"a": shared}}
    body = {"content": [block], "stop_reason": "tool_use"}
    assert why(read_answer("anthropic.messages", body))[0] is Why.TOO_MANY_BYTES


def test_keys_that_are_no_texts_are_passed_over():
    chunks: list[Any] = [{1: {"a": 1}, None: 2}, *converse([RAW])]
    assert found(read_stream("bedrock.converse", chunks)) == BOTH


def test_a_stream_of_nothing_is_no_answer():
    streams: list[list[Any]] = [[], ["[DONE]"], [{}], [{}, "[DONE]"]]
    for chunks in streams:
        assert read_stream("chat.completions", chunks).refusal is not None


@pytest.mark.parametrize(
    ("api", "body", "expected"),
    [
        ("chat.completions", {"error": {"message": "no"}}, Why.ANSWER_FAILED),
        ("chat.completions", {}, Why.UNKNOWN_SHAPE),
        ("chat.completions", [], Why.UNKNOWN_SHAPE),
        ("chat.completions", "{", Why.CUT),
        ("chat.completions", b"\xff", Why.NOT_UTF8),
        ("chat.completions", '{"choices": [], "choices": []}', Why.DUPLICATE_KEY),
        ("chat.completions", 7, Why.UNKNOWN_SHAPE),
        ("responses", {"error": {"message": "no"}, "output": [], "status": "failed"}, Why.ANSWER_FAILED),
        ("anthropic.messages", {"type": "error", "error": {}}, Why.ANSWER_FAILED),
        ("gemini", {"error": {"code": 429}}, Why.ANSWER_FAILED),
        ("bedrock.converse", {"message": "no"}, Why.ANSWER_FAILED),
        ("none.of.these", {}, Why.UNKNOWN_API),
    ],
)
def test_an_answer_that_is_none_is_refused(api, body, expected):
    assert why(read_answer(api, body))[0] is expected
    if not isinstance(body, str | bytes | dict):
        return
    assert read_stream(api, [body]).refusal is not None


@pytest.mark.parametrize(
    ("api", "reason", "expected"),
    [
        ("chat.completions", "length", Why.CUT),
        ("chat.completions", "content_filter", Why.ANSWER_FILTERED),
        ("chat.completions", "error", Why.ANSWER_FAILED),
        ("anthropic.messages", "max_tokens", Why.CUT),
        ("gemini", "MALFORMED_FUNCTION_CALL", Why.ANSWER_FAILED),
        ("gemini", "MAX_TOKENS", Why.CUT),
        ("bedrock.converse", "malformed_tool_use", Why.ANSWER_FAILED),
        ("bedrock.converse", "guardrail_intervened", Why.ANSWER_FILTERED),
    ],
)
def test_calls_of_an_answer_that_did_not_end_well_are_refused(api, reason, expected):
    body = json.loads(json.dumps(WHOLE[api]))
    for holder, key in ((body, "stop_reason"), (body, "stopReason")):
        if key in holder:
            holder[key] = reason
    for choice in body.get("choices", []):
        choice["finish_reason"] = reason
    for candidate in body.get("candidates", []):
        candidate["finishReason"] = reason
    result = read_answer(api, body)
    assert why(result)[0] is expected
    assert result.native.finish == reason


def test_a_call_of_a_tool_that_was_not_offered_is_whole_and_admission_will_say_so():
    body = json.loads(json.dumps(WHOLE["gemini"]))
    body["candidates"][0]["finishReason"] = "UNEXPECTED_TOOL_CALL"
    result = read_answer("gemini", body)
    assert found(result) == BOTH
    assert result.native.finish_class == "error"


def test_responses_that_contradict_themselves_are_refused():
    for at, changed in (
        (3, {"arguments": "{}"}),
        (4, {"item": {**responses([RAW])[5]["item"], "name": "h"}}),
        (4, {"item": {**responses([RAW])[5]["item"], "call_id": "C"}}),
    ):
        chunks = responses([RAW])
        chunks[at] = {**chunks[at], **changed}
        result = read_stream("responses", chunks)
        assert result.refusal is not None
        assert result.refusal.why in {Why.ARGUMENTS_CONFLICT, Why.NAME_CHANGED, Why.ID_CHANGED}
        assert result.refusal.call == 0


@pytest.mark.parametrize(
    ("api", "event", "expected"),
    [
        ("anthropic.messages", messages(["{}"])[6], Why.UNOPENED),
        ("bedrock.converse", converse(["{}"])[4], Why.UNOPENED),
        ("responses", responses(["{}"])[2], Why.ID_MISSING),
    ],
)
def test_arguments_of_a_call_that_never_began_are_refused(api, event, expected):
    assert why(read_stream(api, [event]))[0] is expected


@pytest.mark.parametrize(("api", "at"), [("anthropic.messages", 5), ("bedrock.converse", 3)])
def test_a_block_that_begins_twice_is_refused(api, at):
    chunks = STREAMS[api]([RAW])
    assert "tool" in json.dumps(chunks[at])
    assert why(read_stream(api, [*chunks[: at + 1], *chunks[at:]]))[0] is Why.INDEX_REUSED


def test_what_the_model_said_matters_only_where_markup_may_be_in_it():
    message = {"content": "a lone half \ud800"}
    body = {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
    assert found(read_answer("chat.completions", body)) == []
    assert (
        why(read_answer("chat.completions", body, permitting(dialects=[Dialect.DSML])))[0]
        is Why.LONE_SURROGATE
    )


def test_only_the_choice_that_is_asked_for_counts():
    call = WHOLE["chat.completions"]["choices"][0]
    other = {"index": 1, "finish_reason": "stop", "message": {"content": "No."}}
    body = {"choices": [other, call]}
    assert found(read_answer("chat.completions", body)) == BOTH
    assert found(read_answer("chat.completions", body, permitting(choice=1))) == []


def test_a_whole_batch_in_the_text_beside_calls_is_ambiguous_and_a_stray_mark_is_not():
    options = permitting(dialects=[Dialect.DSML])
    body = json.loads(json.dumps(WHOLE["chat.completions"]))
    message = body["choices"][0]["message"]
    message["content"] = "<\uff5cDSML\uff5cfunction_calls>"
    stray = read_answer("chat.completions", body, options)
    assert found(stray) == BOTH
    assert "markup-beside-calls" in stray.notes
    message["content"] = '<|DSML|invoke name="f"></|DSML|invoke>'
    assert why(read_answer("chat.completions", body, options))[0] is Why.AMBIGUOUS
    assert found(read_answer("chat.completions", body)) == BOTH


def test_bounds_hold_for_calls_and_for_their_bytes():
    few = permitting(limits=Limits(actions=1))
    assert why(read_answer("chat.completions", WHOLE["chat.completions"], few))[0] is Why.TOO_MANY_ACTIONS
    small = permitting(limits=Limits(parameter_bytes=4))
    assert why(read_answer("anthropic.messages", WHOLE["anthropic.messages"], small)) == (
        Why.PARAMETER_TOO_LONG,
        0,
    )
    reader = StreamReader("chat.completions", permitting(limits=Limits(text_bytes=1000)))
    for chunk in chat(["x" * 100] * 1000):
        reader.feed(chunk)
    assert why(reader.end())[0] is Why.TOO_MANY_BYTES
    assert sum(len(one) for call in reader._draft.calls for one in call.pieces) <= 1000


def in_chat(one: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"tool_calls": [one]}}]}


def opened(index: int) -> dict[str, Any]:
    tool = {"toolUseId": f"id-{index}", "name": "find"}
    return {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": tool}}}


def filled(index: int) -> dict[str, Any]:
    delta = {"toolUse": {"input": {"text": "x" * 1000}}}
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}


ENDLESS: dict[str, tuple[str, Callable[[int], list[Any]]]] = {
    "nothing again and again": ("chat.completions", lambda _: [in_chat(later(""))]),
    "what comes along": ("chat.completions", lambda at: [in_chat(later("", **{f"key-{at}": "x" * 1000}))]),
    "choices that end": (
        "chat.completions",
        lambda at: [{"choices": [{"index": at, "finish_reason": "x" * 96}]}],
    ),
    "choices that decline": (
        "chat.completions",
        lambda at: [{"choices": [{"index": at, "delta": {"refusal": "no"}}]}],
    ),
    "blocks": (
        "anthropic.messages",
        lambda at: [{"type": "content_block_start", "index": at, "content_block": {"type": "thinking"}}],
    ),
    "objects": ("bedrock.converse", lambda at: [opened(at), filled(at)]),
    "ids": ("chat.completions", lambda at: [in_chat(piece("{}", index=at + 1, id=f"{at}" * 1000))]),
}


@pytest.mark.parametrize("named", ENDLESS)
def test_a_stream_that_never_ends_is_held_up_to_a_bound(named):
    api, chunks = ENDLESS[named]
    reader = StreamReader(api, permitting(limits=Limits(text_bytes=20_000, actions=1 << 20)))
    if api == "chat.completions":
        reader.feed(in_chat(piece("{")))

    def feed(first: int, last: int) -> None:
        for at in range(first, last):
            for chunk in chunks(at):
                reader.feed(chunk)

    feed(0, 1000)
    tracemalloc.start()
    try:
        feed(1000, 6000)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 20_000


def test_what_came_along_again_and_again_counts_once():
    reader = StreamReader("chat.completions", permitting(limits=Limits(text_bytes=1000)))
    extra = {"extra_content": {"google": {"thought_signature": "s" * 100}}}
    for one in [piece("{", **extra), *[later("", **extra)] * 100, later("}")]:
        reader.feed(in_chat(one))
    assert reader.end(ended=True).actions[0].opaque == extra


def test_an_answer_that_is_still_being_made_is_cut():
    for status in ("queued", "in_progress"):
        body = {**WHOLE["responses"], "status": status}
        assert why(read_answer("responses", body))[0] is Why.CUT


@pytest.mark.parametrize("status", ["in_progress", "incomplete"])
@pytest.mark.parametrize("unfinished", ["the call", "a message beside it", "the message that holds it"])
def test_an_item_that_is_not_finished_refuses_what_a_completed_answer_asks_for(status, unfinished):
    body = json.loads(json.dumps(WHOLE["responses"]))
    said: dict[str, Any] = {"type": "output_text", "text": "Well."}
    message = {"type": "message", "role": "assistant", "status": status, "content": [said]}
    if unfinished == "the call":
        next(item for item in body["output"] if item["type"] == "function_call")["status"] = status
    elif unfinished == "a message beside it":
        body["output"].append(message)
    else:
        said["text"] = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
        body["output"] = [message]
    options = permitting(dialects=[Dialect.HERMES])
    assert why(read_answer("responses", body, options))[0] is Why.CUT
    ended = {"type": "response.completed", "response": body}
    assert why(read_stream("responses", [ended], options))[0] is Why.CUT


def test_of_what_is_said_of_an_item_the_last_word_counts():
    chunks = responses([RAW])
    for event in chunks:
        if event["type"] == "response.output_item.done":
            event["item"] = {**event["item"], "status": "in_progress"}
    assert found(read_stream("responses", chunks)) == BOTH
    chunks[-1]["response"]["output"] = []
    assert why(read_stream("responses", chunks))[0] is Why.CUT


def test_a_line_of_ollama_that_is_not_the_last_is_no_whole_answer():
    body = {**WHOLE["ollama.chat"], "done": False}
    assert why(read_answer("ollama.chat", body))[0] is Why.CUT


def test_calls_of_an_answer_in_which_the_model_refused_are_refused_and_its_text_is_no_plan():
    messages_body = {**WHOLE["anthropic.messages"], "stop_reason": "refusal"}
    assert why(read_answer("anthropic.messages", messages_body)) == (Why.ANSWER_REFUSED, None)
    batch = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    messages_body["content"] = [{"type": "text", "text": batch}]
    assert (
        found(read_answer("anthropic.messages", messages_body, permitting(dialects=[Dialect.HERMES]))) == []
    )

    body = json.loads(json.dumps(WHOLE["chat.completions"]))
    body["choices"][0]["message"]["refusal"] = "I cannot do that."
    assert why(read_answer("chat.completions", body)) == (Why.ANSWER_REFUSED, None)

    body = json.loads(json.dumps(WHOLE["responses"]))
    body["output"].append({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]})
    assert why(read_answer("responses", body)) == (Why.ANSWER_REFUSED, None)


def test_an_object_that_cannot_say_what_it_is_is_no_answer():
    class Broken:
        def model_dump(self, **_: Any) -> dict[str, Any]:
            raise AttributeError("it was never built")

    assert why(read_answer("chat.completions", Broken()))[0] is Why.UNKNOWN_SHAPE
    assert why(read_stream("chat.completions", [Broken()]))[0] is Why.UNKNOWN_SHAPE


def test_what_the_provider_said_is_kept_beside_a_refusal():
    result = stream(piece("{"), later("}", id="B"))
    assert result.native.finish == "tool_calls"
    assert result.native.finish_class == "tool_call"
    assert result.native.call_ids == ("A",)
    assert result.refusal is not None
    assert result.refusal.chunk == 1


class _Chunk:
    """As an SDK gives it."""

    def __init__(self, value: dict[str, Any]) -> None:
        self._value = value

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return self._value


def test_objects_of_an_sdk_are_read_by_what_they_say_on_the_wire():
    assert found(read_answer("chat.completions", _Chunk(WHOLE["chat.completions"]))) == BOTH
    chunks = [_Chunk(chunk) if isinstance(chunk, dict) else chunk for chunk in chat([RAW])]
    assert found(read_stream("chat.completions", chunks)) == BOTH
    # Where the SDK keeps the last word for itself, the caller may know that it was said.
    assert found(read_stream("chat.completions", chunks[:-2], ended=True)) == BOTH
    assert why(read_stream("chat.completions", chunks[:-2]))[0] is Why.CUT
