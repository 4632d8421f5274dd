"""What OpenTelemetry's GenAI instrumentations hand to a completion hook, as the contents of a call's two parts.

The messages are those of `opentelemetry-util-genai` (its conventions' gen-ai-input-messages.json and
gen-ai-output-messages.json): it has parsed arguments that are JSON, left others as text, and puts what a message
holds into an order of its own. `notes` say so, and what else was not seen.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from custody_client.adapters.logical_request import SCHEMA
from custody_client.streams import output as out

# Operations that are a call of a model; agents, workflows, tools and embeddings end in the same hook.
INFERENCE: Final = frozenset({"chat", "generate_content", "text_completion"})

_OPTIONS: Final = (
    "temperature", "top_p", "top_k", "max_tokens", "stop_sequences", "seed", "frequency_penalty",
    "presence_penalty", "choice.count", "stream", "reasoning.level", "previous_response.id",
)  # fmt: skip
_CLASSES: Final[Mapping[str, out.FinishClass]] = {
    "tool_call": "tool_call",
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
}

Attributes = Mapping[str, Any]


def request(
    inputs: Sequence[Any], system: Sequence[Any], tools: Sequence[Any] | None, attributes: Attributes
) -> dict[str, Any]:
    """Give the logical request; the messages themselves are not copied."""
    body = {
        "system_instructions": system,
        "messages": inputs,
        "tools": tools,
        "options": _options(attributes),
        "conversation": attributes.get("gen_ai.conversation.id"),
    }
    return {
        "schema": SCHEMA,
        "vantage": "sdk",
        "provider": attributes.get("gen_ai.provider.name") or "",
        "route": {"host": attributes.get("server.address") or "", "api": _api(attributes)},
        "model": attributes.get("gen_ai.request.model"),
        "body": body,
        "notes": [*_notes(inputs, attributes), *([] if attributes else ["model-and-options-not-seen"])],
    }


def output(outputs: Sequence[Any], attributes: Attributes) -> out.Output:
    """Give the answer as far as it was seen."""
    choices = list(_choices(outputs, attributes))
    error = attributes.get("error.type")
    streamed = bool(attributes.get("gen_ai.request.stream", False))
    state = _state(choices, streamed=streamed, failed=error is not None)
    return out.Output(
        vantage="sdk",
        provider=attributes.get("gen_ai.provider.name") or "",
        route=out.Route(
            attributes.get("server.address") or "", attributes.get("gen_ai.operation.name") or ""
        ),
        response_id=attributes.get("gen_ai.response.id"),
        model=attributes.get("gen_ai.response.model"),
        choices=choices,
        stream=out.Stream(
            streamed, state, 0, None, None if error is None else out.StreamError("transport", str(error))
        ),
        usage=_usage(attributes),
        markup=[],
        limits=out.LimitsMet(),
        notes=[*_notes(outputs, attributes), "order-by-otel", *_finish_notes(outputs, attributes)],
    )


def _api(attributes: Attributes) -> str:
    """Name the shape: OpenTelemetry's own, of this operation."""
    return f"otel.{attributes.get('gen_ai.operation.name') or 'unknown'}"


def _options(attributes: Attributes) -> dict[str, Any]:
    found = {name: attributes.get(f"gen_ai.request.{name}") for name in _OPTIONS}
    found["output.type"] = attributes.get("gen_ai.output.type")
    return {name: value for name, value in found.items() if value is not None}


def _choices(outputs: Sequence[Any], attributes: Attributes) -> Iterator[out.Choice]:
    raw = list(attributes.get("gen_ai.response.finish_reasons") or ())
    for index, message in enumerate(outputs):
        mapped = getattr(message, "finish_reason", None)
        reason = raw[index] if index < len(raw) else mapped
        finish = None if _missing(reason) else out.Finish(str(reason), _CLASSES.get(str(mapped), "unknown"))
        yield out.Choice(index, message.role, list(_items(message.parts, ended=finish is not None)), finish)


def _missing(reason: object) -> bool:
    """The conventions write `error` where a finish reason was due and never came."""
    return reason is None or reason == "error"


def _items(parts: Sequence[Any], *, ended: bool) -> Iterator[out.Item]:
    calls = 0
    for part in parts:
        if part.type == "text":
            yield out.Text(part.content)
        elif part.type == "reasoning":
            yield out.Reasoning(part.content, "text")
        elif part.type == "tool_call":
            arguments = _arguments(part.arguments, ended=ended)
            yield out.ToolCall(calls, None, part.id, None, part.name, arguments)
            calls += 1
        elif part.type in {"server_tool_call", "server_tool_call_response"}:
            yield out.ServerTool(getattr(part, "name", None), None, id=part.id)
        elif part.type == "blob":
            digest = hashlib.sha256(part.content).hexdigest()
            yield out.Media(part.mime_type, len(part.content), digest)
        else:
            yield out.Unrecognised(part.type, _compact(vars(part)))


def _arguments(given: Any, *, ended: bool) -> out.Arguments:
    """Keep text as it is; what was parsed is written again, which is said by the state `object`."""
    if given is None or given == "":
        return out.Arguments("", "empty")
    if not isinstance(given, str):
        return out.Arguments(_compact(given), "object")
    try:
        json.loads(given)
    except (ValueError, RecursionError):
        return out.Arguments(given, "invalid-json" if ended else "incomplete")
    return out.Arguments(given, "valid-json")


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)


def _state(choices: Sequence[out.Choice], *, streamed: bool, failed: bool) -> out.State:
    if failed:
        return "error"
    if not choices or any(choice.finish is None for choice in choices):
        return "interrupted"
    # The instrumentation does not tell whether the stream's terminal marker came.
    return "finished-no-terminal" if streamed else "completed"


def _usage(attributes: Attributes) -> out.Usage:
    def count(name: str) -> int | None:
        return attributes.get(f"gen_ai.usage.{name}")

    found = out.Usage(
        input=count("input_tokens"),
        output=count("output_tokens"),
        reasoning=count("reasoning.output_tokens"),
        cache_read=count("cache_read.input_tokens"),
        cache_write=count("cache_write.input_tokens"),
        source="provider",
    )
    return out.Usage() if found == out.Usage(source="provider") else found


def _notes(messages: Sequence[Any], attributes: Attributes) -> list[str]:
    parsed = any(
        part.type == "tool_call" and not isinstance(part.arguments, str | None)
        for message in messages
        for part in message.parts
    )
    return [
        "observed-by-otel",
        "attempts-collapsed",
        *(["arguments-reparsed"] if parsed else []),
        *([] if "gen_ai.operation.name" in attributes else ["operation-not-seen"]),
    ]


def _finish_notes(outputs: Sequence[Any], attributes: Attributes) -> list[str]:
    unseen = [] if attributes else ["usage-and-streaming-not-seen"]
    if any(_missing(getattr(message, "finish_reason", None)) for message in outputs):
        # Cut off, stopped by the reader, or the provider's own word: the instrumentation does not tell.
        return ["finish-missing-or-error", *unseen]
    raw = attributes.get("gen_ai.response.finish_reasons")
    return [*(["finish-reason-mapped"] if outputs and not raw else []), *unseen]
