"""What providers' own programs make of an answer: its text, its calls and its usage, with none of our code between."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import anthropic
import botocore.session
import httpx2
import openai
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from google import genai
from google.genai import types
from openai.lib.streaming.chat import ChatCompletionStreamState

from client.tests.providers.recorded import EVENTS, Recorded

Call = tuple[str | None, str | None, Any]
PROMPT: list[Any] = [{"role": "user", "content": "?"}]
# Their numbers under our names.
OPENAI = {"input": "prompt_tokens", "output": "completion_tokens"}
RESPONSES = {"input": "input_tokens", "output": "output_tokens"}
ANTHROPIC = RESPONSES | {
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
}
GEMINI = {
    "input": "prompt_token_count",
    "output": "candidates_token_count",
    "reasoning": "thoughts_token_count",
    "cache_read": "cached_content_token_count",
}
CACHED = {"cache_read": "cached_tokens", "cache_write": "cache_write_tokens"}
CONVERSE = {
    "input": "inputTokens",
    "output": "outputTokens",
    "cache_read": "cacheReadInputTokens",
    "cache_write": "cacheWriteInputTokens",
}

# As Nova writes them where it speaks without Converse.
NOVA = {"cache_read": "cacheReadInputTokenCount", "cache_write": "cacheWriteInputTokenCount"}


@dataclass
class View:
    """Text by choice, calls in order (id, name, arguments), and the numbers of usage that were said."""

    texts: dict[int, str] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)

    def say(self, text: str | None, choice: int = 0) -> None:
        self.texts[choice] = self.texts.get(choice, "") + (text or "")

    def count(self, usage: Any, names: dict[str, str]) -> None:
        for ours, theirs in names.items():
            number = usage.get(theirs) if isinstance(usage, dict) else getattr(usage, theirs, None)
            if number is not None:
                self.usage[ours] = number


class Replay:
    """A transport that gives the same bytes whatever it is asked; clients take long to make, so they stay."""

    def __init__(self) -> None:
        self.answer = Recorded("none", "", "", 500, b"")

    def __call__(self, _: Any) -> httpx2.Response:
        answer = self.answer
        headers = {"content-type": answer.content_type}
        return httpx2.Response(answer.status, headers=headers, content=answer.data)

    def aws(self, **_: Any) -> AWSResponse:
        answer = self.answer
        headers = {"content-type": answer.content_type}
        response = AWSResponse("http://replayed", answer.status, headers, _Body(answer.data))
        if not answer.streamed:
            response._content = answer.data
        return response


REPLAY = Replay()


def view(answer: Recorded) -> View:
    """Let the provider's program read the bytes, over a transport that replays them."""
    REPLAY.answer = answer
    return _READERS[answer.api](answer)


def _http() -> httpx2.Client:
    return httpx2.Client(transport=httpx2.MockTransport(REPLAY))


@cache
def _openai() -> openai.OpenAI:
    return openai.OpenAI(api_key="none", base_url="http://replayed/v1", http_client=_http(), max_retries=0)


@cache
def _anthropic() -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="none", base_url="http://replayed", http_client=_http(), max_retries=0)


@cache
def _genai() -> genai.Client:
    return genai.Client(
        api_key="none", http_options=types.HttpOptions(base_url="http://replayed", httpx_client=_http())
    )


@cache
def _bedrock() -> Any:
    client = botocore.session.get_session().create_client(
        "bedrock-runtime",
        region_name="us-east-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=Config(retries={"total_max_attempts": 1}),
    )
    client.meta.events.register("before-send.bedrock-runtime.*", REPLAY.aws)
    return client


def _chat(answer: Recorded) -> View:
    completions = _openai().chat.completions
    if not answer.streamed:
        return _completion(completions.create(model="m", messages=PROMPT))
    state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
    for chunk in completions.create(model="m", messages=PROMPT, stream=True):
        state.handle_chunk(chunk)
    return _completion(state.current_completion_snapshot)


def _completion(completion: Any) -> View:
    seen = View()
    for choice in completion.choices:
        seen.say(choice.message.content, choice.index)
        for call in choice.message.tool_calls or []:
            inside = call.function if call.type != "custom" else call.custom
            seen.calls.append(
                (call.id, inside.name, getattr(inside, "arguments", None) or getattr(inside, "input", ""))
            )
    usage = completion.usage
    seen.count(usage, OPENAI | CACHED)
    seen.count(getattr(usage, "completion_tokens_details", None), {"reasoning": "reasoning_tokens"})
    seen.count(getattr(usage, "prompt_tokens_details", None), CACHED)
    return seen


def _responses(answer: Recorded) -> View:
    if answer.streamed:
        with _openai().responses.stream(model="m", input="?") as stream:
            response: Any = stream.get_final_response()
    else:
        response = _openai().responses.create(model="m", input="?")
    seen = View({0: response.output_text})
    for item in response.output:
        if item.type in {"function_call", "custom_tool_call"}:
            seen.calls.append(
                (item.call_id, item.name, getattr(item, "arguments", None) or getattr(item, "input", ""))
            )
    seen.count(response.usage, RESPONSES)
    seen.count(getattr(response.usage, "output_tokens_details", None), {"reasoning": "reasoning_tokens"})
    seen.count(getattr(response.usage, "input_tokens_details", None), CACHED)
    return seen


def _messages(answer: Recorded) -> View:
    messages = _anthropic().beta.messages
    if answer.streamed:
        with messages.stream(model="m", max_tokens=1, messages=PROMPT) as stream:
            message: Any = stream.get_final_message()
    else:
        message = messages.create(model="m", max_tokens=1, messages=PROMPT)
    seen = View({0: "".join(block.text for block in message.content if block.type == "text")})
    seen.calls = [
        (block.id, block.name, block.input) for block in message.content if block.type == "tool_use"
    ]
    seen.count(message.usage, ANTHROPIC)
    seen.count(getattr(message.usage, "output_tokens_details", None), {"reasoning": "thinking_tokens"})
    return seen


def _gemini(answer: Recorded) -> View:
    models = _genai().models
    if answer.streamed:
        chunks = list(models.generate_content_stream(model="m", contents="?"))
    else:
        chunks = [models.generate_content(model="m", contents="?")]
    seen = View()
    for chunk in chunks:
        _gemini_chunk(seen, chunk)
    return seen


def _gemini_chunk(seen: View, chunk: Any) -> None:
    for candidate in chunk.candidates or []:
        for part in (candidate.content and candidate.content.parts) or []:
            if part.text is not None and not part.thought:
                seen.say(part.text, candidate.index or 0)
            if part.function_call is not None:
                seen.calls.append(
                    (part.function_call.id, part.function_call.name, part.function_call.args or {})
                )
    seen.count(chunk.usage_metadata, GEMINI)


class _Body:
    """The raw body that botocore reads."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._data

    def read(self, *_: Any) -> bytes:
        return self._data

    def close(self) -> None:
        pass


def _converse(answer: Recorded) -> View:
    client = _bedrock()
    messages = [{"role": "user", "content": [{"text": "?"}]}]
    if answer.streamed:
        return _events(client.converse_stream(modelId="m", messages=messages)["stream"])
    whole = client.converse(modelId="m", messages=messages)
    seen = View()
    for block in whole["output"]["message"]["content"]:
        seen.say(block.get("text"))
        tool = block.get("toolUse")
        if tool is not None and tool.get("type") != "server_tool_use":
            seen.calls.append((tool["toolUseId"], tool["name"], tool["input"]))
    seen.count(whole["usage"], CONVERSE)
    return seen


def _events(events: Any) -> View:
    """Put Converse's events together: botocore parses them, and leaves that to its caller."""
    seen = View()
    inputs: dict[int, str] = {}
    names: dict[int, tuple[str, str]] = {}
    for event in events:
        start = event.get("contentBlockStart", {})
        if "toolUse" in start.get("start", {}):
            tool = start["start"]["toolUse"]
            names[start["contentBlockIndex"]] = (tool["toolUseId"], tool["name"])
        block = event.get("contentBlockDelta", {})
        delta = block.get("delta", {})
        seen.say(delta.get("text"))
        if "toolUse" in delta:
            at = block["contentBlockIndex"]
            inputs[at] = inputs.get(at, "") + delta["toolUse"]["input"]
        usage = event.get("metadata", {}).get("usage", {})
        seen.count(usage, CONVERSE)
        seen.count(usage, NOVA)
    seen.calls = [(*names[at], inputs.get(at, "")) for at in sorted(names)]
    return seen


def _invoke(answer: Recorded) -> View:
    """Let botocore take the frames apart; what is inside goes to the model's own program, where it has one."""
    client = _bedrock()
    inner = [
        event["chunk"]["bytes"]
        for event in client.invoke_model_with_response_stream(modelId="m", body=b"{}")["body"]
    ]
    events = [json.loads(data) for data in inner]
    if "type" in events[0]:
        lines = b"".join(
            b"event: %s\ndata: %s\n\n" % (event["type"].encode(), data)
            for event, data in zip(events, inner, strict=True)
        )
        return view(Recorded(answer.id, "anthropic.messages", EVENTS, 200, lines))
    if "outputText" in events[0]:
        seen = View({0: "".join(event["outputText"] for event in events)})
        names = {"input": "inputTokenCount", "output": "outputTokenCount"}
        seen.count(events[-1]["amazon-bedrock-invocationMetrics"], names)
        return seen
    return _events(events)


_READERS: dict[str, Callable[[Recorded], View]] = {
    "chat.completions": _chat,
    "responses": _responses,
    "anthropic.messages": _messages,
    "gemini": _gemini,
    "bedrock.converse": _converse,
    "bedrock.invoke": _invoke,
}
