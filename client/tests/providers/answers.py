"""What the fake provider says: one short text and one tool call, in each of the four ways."""

import gzip as _gzip
import json
from collections.abc import Iterator
from typing import Any

WORDS = ("Let ", "me ", "look.")
TEXT = "".join(WORDS)
ARGUMENTS = ('{"city"', ': "Rome"}')


def gzip(body: bytes) -> bytes:
    return _gzip.compress(body)


def whole(path: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The answer that comes in one piece."""
    answer: dict[str, Any] = _way(path)[0](asked.get("model", "gemini-x"))
    return answer


def events(path: str, asked: dict[str, Any], *, terminal: bool = True) -> Iterator[bytes]:
    """The answer that comes as server-sent events; the last one says the end."""
    name, spoken = _way(path)[1](asked.get("model", "gemini-x"))
    end = b"data: [DONE]\n\n" if name == "chat" else None
    said = [_event(event, named=name == "anthropic") for event in spoken]
    if end is None and not terminal and name != "gemini":
        said.pop()
    yield from said
    if end and terminal:
        yield end


def _event(event: dict[str, Any], *, named: bool) -> bytes:
    head = f"event: {event['type']}\n" if named else ""
    return f"{head}data: {json.dumps(event)}\n\n".encode()


def _way(path: str) -> tuple[Any, Any]:
    for end, way in _WAYS.items():
        if path.endswith(end):
            return way
    raise AssertionError(path)


# -- chat completions -------------------------------------------------------------------------------------------------

_CALL = {"id": "call_A", "type": "function", "function": {"name": "weather", "arguments": "".join(ARGUMENTS)}}
_CHAT_USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def _chat(model: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": TEXT, "tool_calls": [_CALL], "refusal": None}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message, "logprobs": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": f"{model}-0613",
        "choices": [choice],
        "usage": _CHAT_USAGE,
    }


def _chat_stream(model: str) -> tuple[str, list[dict[str, Any]]]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": f"{model}-0613",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }

    first = {"index": 0, "id": "call_A", "type": "function", "function": {"name": "weather", "arguments": ""}}
    return "chat", [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": word}) for word in WORDS),
        chunk({"tool_calls": [first]}),
        *(chunk({"tool_calls": [{"index": 0, "function": {"arguments": part}}]}) for part in ARGUMENTS),
        chunk({}, "tool_calls"),
        {**chunk({}), "choices": [], "usage": _CHAT_USAGE},
    ]


# -- responses --------------------------------------------------------------------------------------------------------


def _response(model: str, status: str = "completed", output: Any = None) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": f"{model}-0613",
        "status": status,
        "output": [_message(), _function_call()] if output is None else output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": {
            "input_tokens": 11,
            "output_tokens": 7,
            "total_tokens": 18,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _message() -> dict[str, Any]:
    text = {"type": "output_text", "text": TEXT, "annotations": []}
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}


def _function_call() -> dict[str, Any]:
    return {
        "id": "fc_1",
        "type": "function_call",
        "status": "completed",
        "call_id": "call_A",
        "name": "weather",
        "arguments": "".join(ARGUMENTS),
    }


def _responses_stream(model: str) -> tuple[str, list[dict[str, Any]]]:
    begun = {**_message(), "status": "in_progress", "content": []}
    asked = {**_function_call(), "status": "in_progress", "arguments": ""}
    part = {"type": "output_text", "text": "", "annotations": []}
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    call = {"item_id": "fc_1", "output_index": 1}
    said: list[dict[str, Any]] = [
        {"type": "response.created", "response": _response(model, "in_progress", [])},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        {"type": "response.content_part.added", **at, "part": part},
        *({"type": "response.output_text.delta", **at, "delta": word, "logprobs": []} for word in WORDS),
        {"type": "response.output_text.done", **at, "text": TEXT, "logprobs": []},
        {"type": "response.content_part.done", **at, "part": {**part, "text": TEXT}},
        {"type": "response.output_item.done", "output_index": 0, "item": _message()},
        {"type": "response.output_item.added", "output_index": 1, "item": asked},
        *({"type": "response.function_call_arguments.delta", **call, "delta": part} for part in ARGUMENTS),
        {
            "type": "response.function_call_arguments.done",
            **call,
            "name": "weather",
            "arguments": "".join(ARGUMENTS),
        },
        {"type": "response.output_item.done", "output_index": 1, "item": _function_call()},
        {"type": "response.completed", "response": _response(model)},
    ]
    return "responses", [{**event, "sequence_number": number} for number, event in enumerate(said)]


# -- messages ---------------------------------------------------------------------------------------------------------


def _anthropic(model: str) -> dict[str, Any]:
    tool = {"type": "tool_use", "id": "toolu_A", "name": "weather", "input": json.loads("".join(ARGUMENTS))}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": f"{model}-0613",
        "content": [{"type": "text", "text": TEXT}, tool],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 11, "output_tokens": 7},
    }


def _anthropic_stream(model: str) -> tuple[str, list[dict[str, Any]]]:
    begun = {
        **_anthropic(model),
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 11, "output_tokens": 1},
    }
    tool = {"type": "tool_use", "id": "toolu_A", "name": "weather", "input": {}}

    def delta(index: int, **what: Any) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": what}

    return "anthropic", [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(delta(0, type="text_delta", text=word) for word in WORDS),
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": tool},
        *(delta(1, type="input_json_delta", partial_json=part) for part in ARGUMENTS),
        {"type": "content_block_stop", "index": 1},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 7},
        },
        {"type": "message_stop"},
    ]


# -- generateContent --------------------------------------------------------------------------------------------------

_GEMINI_USAGE = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}


def _gemini_part(*parts: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": list(parts)}}
    said: dict[str, Any] = {"candidates": [candidate], "modelVersion": "gemini-x-001", "responseId": "gem-1"}
    if finish:
        candidate["finishReason"] = finish
        said["usageMetadata"] = _GEMINI_USAGE
    return said


_GEMINI_CALL = {"functionCall": {"name": "weather", "args": json.loads("".join(ARGUMENTS))}}


def _gemini(_model: str) -> dict[str, Any]:
    return _gemini_part({"text": TEXT}, _GEMINI_CALL, finish="STOP")


def _gemini_stream(_model: str) -> tuple[str, list[dict[str, Any]]]:
    return "gemini", [
        *(_gemini_part({"text": word}) for word in WORDS),
        _gemini_part(_GEMINI_CALL, finish="STOP"),
    ]


_WAYS = {
    "/chat/completions": (_chat, _chat_stream),
    "/responses": (_response, _responses_stream),
    "/messages": (_anthropic, _anthropic_stream),
    "/invoke": (_anthropic, _anthropic_stream),
    ":generateContent": (_gemini, _gemini_stream),
    ":streamGenerateContent": (_gemini, _gemini_stream),
}
