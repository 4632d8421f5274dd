"""One whole stream of each wire format, made for tests, with two calls or a refusal where the format has them."""

import base64
import json
from dataclasses import dataclass
from typing import Any

from client.tests.streams.wire import DONE, chunk, frame, named, sse, tools

SIGN = "c2lnbmF0dXJl"


@dataclass(frozen=True)
class Made:
    """A stream, as pieces of one event each; which of them says why it ends, and which is its last word."""

    api: str
    pieces: list[bytes]
    finish: int
    terminal: int

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)


def _piece(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": arguments, **more}}


CHAT = Made(
    "chat.completions",
    [
        sse(chunk({"role": "assistant", "content": ""})),
        b": keep-alive\n\n",
        sse(chunk({"reasoning_content": "Höre …"})),
        sse(chunk({"content": "Grüße, "})),
        sse(chunk({"content": "Welt \U0001f600"})),
        sse(tools({"index": 0, "id": "A", "type": "function", "function": {"name": "f", "arguments": ""}})),
        sse(tools({"index": 1, "id": "B", "type": "function", "function": {"name": "g", "arguments": ""}})),
        sse(tools(_piece(1, '{"größe":'), _piece(0, "{"))),
        sse(tools(_piece(0, "}"), _piece(1, "9007199254740993}"))),
        sse(chunk({}, "tool_calls")),
        sse({"id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}}),
        DONE,
    ],
    finish=9,
    terminal=11,
)


_RESPONSE = {"id": "resp_1", "object": "response", "model": "model-a", "status": "in_progress", "output": []}
_CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_A", "name": "f"}
_SUMMARY = {"type": "summary_text", "text": "Überlegt"}
_SAID = {"type": "output_text", "text": "Grüße", "annotations": []}
_REFUSED = {"type": "refusal", "refusal": "Nein"}
_MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
_COMPLETED = {
    **_RESPONSE,
    "status": "completed",
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [_SUMMARY]},
        {**_MESSAGE, "content": [_SAID, _REFUSED]},
        {**_CALL, "arguments": '{"a":1}'},
    ],
    "usage": {
        "input_tokens": 11,
        "output_tokens": 7,
        "total_tokens": 18,
        "output_tokens_details": {"reasoning_tokens": 3},
        "input_tokens_details": {"cached_tokens": 2},
    },
}


def _of(kind: str, at: int, **fields: Any) -> bytes:
    return named({"type": f"response.{kind}", "output_index": at, **fields})


def _part(place: int, part: dict[str, Any]) -> bytes:
    return _of("content_part.added", 1, item_id="msg_1", content_index=place, part=part)


RESPONSES = Made(
    "responses",
    [
        named({"type": "response.created", "response": _RESPONSE}),
        _of("output_item.added", 0, item={"type": "reasoning", "id": "rs_1", "summary": []}),
        _of("reasoning_summary_text.delta", 0, item_id="rs_1", summary_index=0, delta="Überlegt"),
        _of("output_item.added", 1, item={**_MESSAGE, "status": "in_progress", "content": []}),
        _part(0, {**_SAID, "text": ""}),
        _of("output_text.delta", 1, item_id="msg_1", content_index=0, delta="Grüße"),
        _of("output_text.done", 1, item_id="msg_1", content_index=0, text="Grüße"),
        _part(1, {"type": "refusal", "refusal": ""}),
        _of("refusal.delta", 1, item_id="msg_1", content_index=1, delta="Nein"),
        _of("output_item.added", 2, item={**_CALL, "arguments": ""}),
        _of("function_call_arguments.delta", 2, item_id="fc_1", delta='{"a":'),
        _of("function_call_arguments.delta", 2, item_id="fc_1", delta="1}"),
        _of("function_call_arguments.done", 2, item_id="fc_1", arguments='{"a":1}'),
        _of("output_item.done", 2, item={**_CALL, "arguments": '{"a":1}'}),
        named({"type": "response.completed", "response": _COMPLETED}),
    ],
    finish=14,
    terminal=14,
)


def _block(index: int, **block: Any) -> bytes:
    return named({"type": "content_block_start", "index": index, "content_block": block})


def _delta(index: int, **delta: Any) -> bytes:
    return named({"type": "content_block_delta", "index": index, "delta": delta})


MESSAGES = Made(
    "anthropic.messages",
    [
        named(
            {
                "type": "message_start",
                "message": {
                    "id": "msg_1",
                    "model": "model-a",
                    "role": "assistant",
                    "content": [],
                    "usage": {"input_tokens": 11, "output_tokens": 1, "cache_read_input_tokens": 2},
                },
            }
        ),
        _block(0, type="thinking", thinking="", signature=""),
        named({"type": "ping"}),
        _delta(0, type="thinking_delta", thinking="Überlegt"),
        _delta(0, type="signature_delta", signature=SIGN),
        named({"type": "content_block_stop", "index": 0}),
        _block(1, type="text", text=""),
        _delta(1, type="text_delta", text="Grüße \U0001f600"),
        _block(2, type="tool_use", id="toolu_A", name="f", input={}),
        _delta(2, type="input_json_delta", partial_json=""),
        _delta(2, type="input_json_delta", partial_json='{"größe":'),
        _delta(2, type="input_json_delta", partial_json="9007199254740993}"),
        named({"type": "content_block_stop", "index": 2}),
        named({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}}),
        named({"type": "message_stop"}),
    ],
    finish=13,
    terminal=14,
)


def _candidate(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **more}],
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 7, "thoughtsTokenCount": 3},
        "modelVersion": "model-a",
        "responseId": "r-1",
    }


GEMINI = Made(
    "gemini",
    [
        sse(_candidate({"text": "Über", "thought": True}), line=b"\r\n"),
        sse(_candidate({"text": "legt", "thought": True}), line=b"\r\n"),
        sse(_candidate({"text": "Grüße"}), line=b"\r\n"),
        sse(_candidate({"text": " \U0001f600"}), line=b"\r\n"),
        sse(
            _candidate({"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": SIGN}),
            line=b"\r\n",
        ),
        sse(_candidate({"text": ""}, finishReason="STOP"), line=b"\r\n"),
    ],
    finish=5,
    terminal=5,
)
CONVERSE = Made(
    "bedrock.converse",
    [
        frame("messageStart", {"role": "assistant", "p": "abc"}),
        frame(
            "contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "Überlegt"}}}
        ),
        frame(
            "contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": SIGN}}}
        ),
        frame("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "Grüße \U0001f600"}}),
        frame("contentBlockStop", {"contentBlockIndex": 1}),
        frame(
            "contentBlockStart",
            {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "A", "name": "f"}}},
        ),
        frame("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"toolUse": {"input": '{"a":'}}}),
        frame("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"toolUse": {"input": "1}"}}}),
        frame("contentBlockStop", {"contentBlockIndex": 2}),
        frame("messageStop", {"stopReason": "tool_use"}),
        frame(
            "metadata", {"usage": {"inputTokens": 11, "outputTokens": 7, "totalTokens": 18}, "metrics": {}}
        ),
    ],
    finish=9,
    terminal=9,
)


def _inner(event: dict[str, Any]) -> bytes:
    return frame("chunk", {"bytes": base64.b64encode(json.dumps(event).encode()).decode(), "p": "abc"})


_STARTED = {
    "id": "msg_1",
    "role": "assistant",
    "content": [],
    "usage": {"input_tokens": 11, "output_tokens": 1},
}
INVOKE = Made(
    "bedrock.invoke",
    [
        _inner({"type": "message_start", "message": _STARTED}),
        _inner({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        _inner({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Grüße"}}),
        _inner(
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}}
        ),
        _inner({"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 11}}),
    ],
    finish=3,
    terminal=4,
)


def _line(message: dict[str, Any] | None = None, **more: Any) -> bytes:
    event = {"model": "model-a", **({} if message is None else {"message": message}), "done": False, **more}
    return json.dumps(event).encode() + b"\n"


OLLAMA = Made(
    "ollama.chat",
    [
        _line({"role": "assistant", "content": "", "thinking": "Überlegt"}),
        _line({"role": "assistant", "content": "Grüße"}),
        _line(
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}],
            }
        ),
        _line(
            {"role": "assistant", "content": ""},
            done=True,
            done_reason="stop",
            prompt_eval_count=11,
            eval_count=7,
        ),
    ],
    finish=3,
    terminal=3,
)

ALL = {made.api: made for made in (CHAT, RESPONSES, MESSAGES, GEMINI, CONVERSE, INVOKE, OLLAMA)}
