"""What becomes of a whole stream of each wire format, and how far a part of one is said to have come."""

import json
from typing import Any

import msgspec
import pytest

from client.tests.streams import made
from client.tests.streams.made import ALL
from client.tests.streams.wire import assembler, brief, calls, chunk, frame, named, output, sse, text
from custody_client.streams import Assembler
from custody_client.streams.output import Fragment, Reasoning, Refusal, ServerTool

EVERY = pytest.mark.parametrize("stream", ALL.values(), ids=ALL.keys())


def reasoning(given):
    return next(item for item in given.choices[0].items if isinstance(item, Reasoning))


@EVERY
def test_a_whole_stream_is_completed(stream):
    given = output(stream.api, stream.data)
    assert given.stream.state == "completed"
    assert text(given).startswith("Grüße")
    assert (given.usage.input, given.usage.output, given.usage.source) == (11, 7, "provider")
    assert given.choices[0].role == "assistant" or stream.api == "gemini"
    assert given.unknown is msgspec.UNSET
    assert assembler(stream.api, stream.data).completeness == "complete"


@EVERY
def test_how_far_it_came_is_read_from_its_last_words(stream):
    for count in range(len(stream.pieces)):
        given = assembler(stream.api, *stream.pieces[:count])
        state = "completed" if count > stream.terminal else "interrupted"
        if stream.finish < count <= stream.terminal:
            state = "finished-no-terminal"
        assert given.state == state, count
        assert given.completeness == {"interrupted": "interrupted", "completed": "complete"}.get(
            state, "unknown"
        )


@EVERY
def test_a_consumer_that_leaves_early_is_said_so(stream):
    for count in range(len(stream.pieces) + 1):
        given = assembler(stream.api, *stream.pieces[:count])
        before = given.state
        given.cancelled()
        assert given.state == ("cancelled" if before == "interrupted" else before)


@EVERY
def test_a_failed_transport_names_its_error_and_no_more(stream):
    given = assembler(stream.api, *stream.pieces[:2])
    given.failed("ReadTimeout")
    made_of = given.output()
    assert made_of.stream.state == "interrupted"
    assert made_of.stream.error is not None
    assert (made_of.stream.error.source, made_of.stream.error.kind) == ("transport", "ReadTimeout")


def test_chat_completions():
    given = output("chat.completions", made.CHAT.data)
    assert brief(given) == [("A", "f", "{}"), ("B", "g", '{"größe":9007199254740993}')]
    assert [call.arguments.fragments for call in calls(given)] == [
        [Fragment(4, 0), Fragment(6, 1), Fragment(7, 1)],
        [Fragment(5, 0), Fragment(6, 9), Fragment(7, 17)],
    ]
    assert [type(item).__name__ for item in given.choices[0].items] == [
        "Reasoning",
        "Text",
        "ToolCall",
        "ToolCall",
    ]
    assert (given.response_id, given.model, given.stream.chunks, given.stream.terminal) == (
        "chatcmpl-1",
        "model-a",
        10,
        "[DONE]",
    )


def test_responses():
    given = output("responses", made.RESPONSES.data)
    call = calls(given)[0]
    assert (call.id, call.item_id, call.wire_index, call.arguments.raw) == ("call_A", "fc_1", 2, '{"a":1}')
    assert reasoning(given).form == "summary"
    assert [item.text for item in given.choices[0].items if isinstance(item, Refusal)] == ["Nein"]
    assert (given.usage.reasoning, given.usage.cache_read) == (3, 2)
    assert given.choices[0].finish is not None
    assert (given.choices[0].finish.reason, given.choices[0].finish.class_) == ("completed", "tool_call")


def test_responses_whole_items_are_held_against_their_pieces():
    wrong = made.RESPONSES.data.replace(b'"text":"Gr\\u00fc\\u00dfe"', b'"text":"other"')
    wrong = wrong.replace(b'"arguments":"{\\"a\\":1}"', b'"arguments":"{\\"a\\":2}"')
    given = output("responses", wrong)
    assert text(given) == "Grüße"
    assert given.notes == ["text-differs-from-done", "arguments-differ-from-done"]


def test_responses_incomplete_and_failed():
    details = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    cut = output("responses", named({"type": "response.incomplete", "response": details}))
    assert cut.stream.state == "completed"
    assert cut.choices[0].finish is not None
    assert (cut.choices[0].finish.reason, cut.choices[0].finish.class_) == ("max_output_tokens", "length")
    error = {"code": "server_error", "message": "no"}
    failed = output(
        "responses", named({"type": "response.failed", "response": {"status": "failed", "error": error}})
    )
    assert failed.stream.state == "error"
    assert failed.stream.error is not None
    assert failed.stream.error.kind == "server_error"


def test_responses_tools_of_the_provider_and_custom_ones():
    custom = {"type": "custom_tool_call", "id": "ct_1", "call_id": "c", "name": "sql", "input": ""}
    given = output(
        "responses",
        named(
            {
                "type": "response.output_item.added",
                "output_index": 0,
                "item": {"type": "web_search_call", "id": "w"},
            },
            {
                "type": "response.output_item.done",
                "output_index": 0,
                "item": {"type": "web_search_call", "id": "w", "status": "completed"},
            },
            {"type": "response.output_item.added", "output_index": 1, "item": custom},
            {"type": "response.custom_tool_call_input.delta", "output_index": 1, "delta": "select 1"},
        ),
    )
    tool = given.choices[0].items[0]
    assert isinstance(tool, ServerTool)
    assert (tool.name, tool.status, tool.id, tool.summary_only) == ("web_search", "completed", "w", True)
    assert (calls(given)[0].arguments.raw, calls(given)[0].arguments.state) == ("select 1", "text")


def test_responses_tools_that_the_caller_runs_are_calls():
    item = {"type": "computer_call", "id": "cu_1", "call_id": "c", "action": {"type": "click", "x": 10.50}}
    data = named(
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "action": None}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    )
    given = output("responses", data.replace(b"10.5}", b"10.50}"))
    assert brief(given) == [("c", "computer", '{"type":"click","x":10.50}')]
    odd = output(
        "responses",
        named({"type": "response.output_item.done", "output_index": 0, "item": {"type": "shell_call"}}),
    )
    assert [type(one).__name__ for one in odd.choices[0].items] == ["ToolCall", "Unrecognised"]


def test_gemini_values_by_path_are_kept_as_they_came():
    def piece(**call):
        return _candidate_of({"functionCall": call})

    first = {"name": "f", "partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}], "willContinue": True}
    last = {"partialArgs": [{"jsonPath": "$.a", "stringValue": "y"}]}
    given = output("gemini", sse(piece(**first), piece(**last)))
    assert brief(given) == [
        (None, "f", '[{"jsonPath":"$.a","stringValue":"x"}][{"jsonPath":"$.a","stringValue":"y"}]')
    ]
    assert calls(given)[0].arguments.state == "text"
    assert given.notes == ["partial-arguments"]


def _candidate_of(*parts):
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0}]}


def test_anthropic():
    given = output("anthropic.messages", made.MESSAGES.data)
    assert brief(given) == [("toolu_A", "f", '{"größe":9007199254740993}')]
    assert reasoning(given).opaque == {"signature": made.SIGN}
    assert (given.usage.cache_read, given.usage.cache_write) == (2, None)
    # A ping is no chunk: seen through the SDK, which swallows it, the numbers are the same.
    assert [fragment.seq for fragment in calls(given)[0].arguments.fragments] == [8, 9, 10]


def test_anthropic_input_at_the_head_of_a_block_counts_if_nothing_follows():
    start = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "tool_use", "id": "A", "name": "f", "input": {"a": 1}},
    }
    more = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": "{}"},
    }
    alone = calls(output("anthropic.messages", named(start)))[0].arguments
    assert (alone.raw, alone.state) == ('{"a":1}', "object")
    assert calls(output("anthropic.messages", named(start, more)))[0].arguments.raw == "{}"


def test_anthropic_server_tools_redacted_thinking_and_refusal():
    given = output(
        "anthropic.messages",
        named(
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "redacted_thinking", "data": "b3BhcXVl"},
            },
            {
                "type": "content_block_start",
                "index": 1,
                "content_block": {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            },
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": '{"q":1}'},
            },
            {
                "type": "content_block_start",
                "index": 2,
                "content_block": {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
            },
            {
                "type": "message_delta",
                "delta": {"stop_reason": "refusal", "stop_details": {"type": "refusal", "category": "x"}},
            },
        ),
    )
    redacted, used, result = given.choices[0].items
    assert isinstance(redacted, Reasoning)
    assert redacted.form == "redacted"
    assert isinstance(used, ServerTool)
    assert used.arguments is not msgspec.UNSET
    assert used.arguments.raw == '{"q":1}'
    assert isinstance(result, ServerTool)
    assert not calls(given)
    assert given.choices[0].finish is not None
    assert given.choices[0].finish.class_ == "refusal"
    assert json.loads(msgspec.json.encode(given))["choices"][0]["facts"]["stop_details"]["category"] == "x"


def test_gemini():
    given = output("gemini", made.GEMINI.data)
    assert [type(item).__name__ for item in given.choices[0].items] == [
        "Reasoning",
        "Text",
        "ToolCall",
        "Text",
    ]
    assert reasoning(given).text == "Überlegt"
    assert given.usage.reasoning == 3
    assert given.choices[0].role == "model"


def test_gemini_a_refused_prompt_has_no_candidate():
    given = output("gemini", sse({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}}))
    assert given.choices[0].finish is not None
    assert (given.choices[0].finish.reason, given.choices[0].finish.class_) == ("SAFETY", "content_filter")
    assert given.stream.state == "completed"
    assert given.usage.source == "none"


@pytest.mark.parametrize("indent", [None, 1, 2])
def test_gemini_without_events_is_one_array(indent):
    chunks = [json.loads(piece.removeprefix(b"data: ")) for piece in made.GEMINI.pieces]
    whole = output("gemini", made.GEMINI.data)
    for data in (
        json.dumps(chunks, indent=indent),
        ",\r\n".join(json.dumps(one, indent=indent) for one in chunks),
    ):
        body = data if data.startswith("[") else "[" + data + "\n]\n"
        given = output("gemini", body.encode())
        assert given.choices == whole.choices, body


def test_converse():
    given = output("bedrock.converse", made.CONVERSE.data)
    assert brief(given) == [("A", "f", '{"a":1}')]
    assert reasoning(given).opaque == {"signature": made.SIGN}
    decoded = Assembler("bedrock.converse")
    for event in ({"messageStart": {"role": "assistant"}}, {"messageStop": {"stopReason": "end_turn"}}):
        decoded.event(event)
    assert decoded.state == "completed"


@pytest.mark.parametrize("message", ["exception", "error"])
def test_converse_exceptions_are_errors(message):
    end = frame("throttlingException", {"message": "slower"}, message)
    given = output("bedrock.converse", *made.CONVERSE.pieces[:4], end)
    assert given.stream.state == "error"
    assert given.stream.error is not None
    assert (given.stream.error.kind, given.stream.error.message) == ("throttlingException", "slower")
    assert text(given).startswith("Grüße")


@pytest.mark.parametrize(
    "event",
    [
        {"outputText": "Hello", "index": 0, "completionReason": "FINISH"},
        {"generation": "Hello", "stop_reason": "stop"},
        {"completion": "Hello", "stop_reason": "stop_sequence"},
        {"outputs": [{"text": "Hello", "stop_reason": "stop"}]},
        {"results": [{"outputText": "Hello", "completionReason": "FINISH"}]},
        {"generations": [{"text": "Hello", "finish_reason": "COMPLETE"}]},
        {"choices": [{"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}]},
    ],
)
def test_invoke_reads_the_families_of_text(event):
    whole = Assembler("bedrock.invoke", streamed=False)
    whole.answer(json.dumps(event).encode())
    streamed = output("bedrock.invoke", made._inner(event))
    for given in (whole.output(), streamed):
        assert text(given) == "Hello"
        assert given.choices[0].finish is not None
        assert given.choices[0].finish.class_ == "stop"


def test_ollama():
    given = output("ollama.chat", made.OLLAMA.data)
    assert [call[1:] for call in brief(given)] == [("f", '{"a":1}')]
    assert reasoning(given).text == "Überlegt"


ERRORS = {
    "chat.completions": sse({"error": {"message": "over", "type": "overloaded", "code": 529}}),
    "responses": named({"type": "error", "code": "overloaded", "message": "over"}),
    "anthropic.messages": named({"type": "error", "error": {"type": "overloaded", "message": "over"}}),
    "gemini": sse({"error": {"code": 503, "status": "overloaded", "message": "over"}}),
    "bedrock.converse": frame("overloaded", {"message": "over"}, "exception"),
    "bedrock.invoke": frame("overloaded", {"message": "over"}, "exception"),
    "ollama.chat": b'{"error":"over"}\n',
}


@EVERY
def test_an_error_in_a_stream_stays_one_whatever_follows(stream):
    given = assembler(
        stream.api, *stream.pieces[: stream.finish], ERRORS[stream.api], *stream.pieces[stream.finish :]
    )
    given.cancelled()
    error = given.output().stream.error
    assert given.state == "error"
    assert error is not None
    assert error.message == "over"
    assert error.kind in {"overloaded", None}
    assert text(given.output()).startswith("Grüße")


def test_a_named_error_event_of_an_unknown_shape_is_an_error():
    given = output("chat.completions", b'event: error\ndata: {"message":"over"}\n\n')
    assert given.stream.state == "error"
    assert given.unknown is not msgspec.UNSET


def test_choices_are_finished_when_all_of_them_are():
    one = {"choices": [{"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}]}
    end = {"choices": [{"index": 1, "delta": {}, "finish_reason": "stop"}]}
    assert output("chat.completions", sse(one, end)).stream.state == "interrupted"
    given = output("chat.completions", sse(one, end, chunk({}, "stop")))
    assert given.stream.state == "finished-no-terminal"
    assert [text(given, at) for at in (0, 1)] == ["a", "b"]


WHOLE: dict[str, dict[str, Any]] = {
    "chat.completions": {
        "id": "c",
        "object": "chat.completion",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7},
    },
    "responses": made._COMPLETED,
    "anthropic.messages": {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Hello"},
            {"type": "tool_use", "id": "A", "name": "f", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 11, "output_tokens": 7},
    },
    "gemini": {**made._candidate({"text": "Hello"}, finishReason="STOP")},
    "bedrock.converse": {
        "output": {"message": {"role": "assistant", "content": [{"text": "Hello"}]}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 11, "outputTokens": 7},
    },
    "ollama.chat": {
        "message": {"role": "assistant", "content": "Hello"},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 11,
        "eval_count": 7,
    },
}


@pytest.mark.parametrize("api", WHOLE)
def test_an_answer_that_does_not_stream_is_completed(api):
    made_of = Assembler(api, streamed=False)
    made_of.answer(json.dumps(WHOLE[api]).encode())
    given = made_of.output()
    assert text(given) in {"Hello", "Grüße"}
    assert (given.usage.input, given.usage.output) == (11, 7)
    assert (given.stream.state, given.stream.terminal, given.stream.streamed) == ("completed", None, False)
    assert made_of.completeness == "complete"
    decoded = Assembler(api, streamed=False)
    decoded.answer(WHOLE[api])
    assert decoded.encode() == made_of.encode()


@pytest.mark.parametrize("api", WHOLE)
def test_a_whole_answer_where_a_stream_was_asked_for_is_read_too(api):
    """Some ignore `stream`: what comes is one JSON value, over one line or many."""
    for indent in (None, 2):
        given = output(api, json.dumps(WHOLE[api], indent=indent).encode())
        assert text(given) in {"Hello", "Grüße"}
        assert given.stream.state in {"completed", "finished-no-terminal"}


@EVERY
def test_a_stream_that_somebody_read_to_its_end_is_an_answer_too(stream):
    if stream.api != "ollama.chat":
        whole = Assembler(stream.api)
        whole.answer(stream.data)
        assert whole.encode() == assembler(stream.api, stream.data).encode()


@pytest.mark.parametrize("api", WHOLE)
def test_a_refusal_by_the_provider_is_an_error(api):
    for body in ({"error": {"type": "invalid", "message": "no"}}, {"error": "no"}):
        refused = Assembler(api, streamed=False)
        refused.answer(json.dumps(body).encode())
        error = refused.output().stream.error
        assert refused.state == "error"
        assert error is not None
        assert error.message == "no"
