"""Messages as the usual providers write them, read by their keys; what no key of these names stays JSON, beside them.

Content may name a role or type anything: those words are shown as content, never looked up.
"""

from collections.abc import Iterator
from typing import Final

from console.showing.blocks import Bench, Block, Layout, Message
from console.showing.json_tree import Node
from console.showing.objects import Taking

_TEXTS: Final = frozenset({"text", "input_text", "output_text"})
_MEDIA: Final = frozenset(
    {
        "image",
        "image_url",
        "input_image",
        "input_audio",
        "audio",
        "video",
        "file",
        "input_file",
        "document",
        "media",
    }
)
_CALLS: Final = frozenset({"tool_use", "function_call", "server_tool_use", "custom_tool_call"})
_RESULTS: Final = frozenset({"tool_result", "function_call_output", "custom_tool_call_output"})
_SYSTEM: Final = ("system", "instructions", "systemInstruction", "system_instruction", "preamble")
_LISTS: Final = ("messages", "contents", "input", "output")
_ANSWERS: Final = ("choices", "candidates")


def conversation(bench: Bench, root: Node) -> Layout | None:
    """Lay out a request or an answer that holds messages; None where nothing here knows its shape."""
    taking = Taking(bench.tree, root)
    messages = list(_messages(bench, taking))
    if not messages:
        return None
    facts = bench.known(("Model", taking.word("model")), ("Id", taking.word("id")))
    tools = [_tool(bench, node) for node in taking.items("tools")]
    rest = [Message("tools", tools)] if tools else []
    if left := taking.rest():
        rest.append(Message("other fields", [bench.json("json", left)]))
    return Layout(facts, messages, rest)


def _messages(bench: Bench, taking: Taking) -> Iterator[Message]:
    for name in _SYSTEM:
        node = taking.take(name, "string", "array", "object")
        if node is not None:
            yield Message("system", list(blocks_of(bench, node)))
    for name in _LISTS:
        said = taking.take(name, "string") if name == "input" else None
        if said is not None:
            yield Message("user", [bench.value("text", said)])
        yield from (message(bench, node) for node in taking.items(name))
    for name in _ANSWERS:
        yield from (_answer(bench, node) for node in taking.items(name))
    # Anthropic's answer is one message, of which the root is the object; an error has no content.
    if taking.look("role") is not None and (content := taking.take("content", "array", "string")) is not None:
        yield Message(bench.marked(taking.word("role")), list(blocks_of(bench, content)))
    if (node := taking.look("output")) is not None and node.kind == "object":
        taking.take("output")
        yield _answer(bench, node)


def _answer(bench: Bench, node: Node) -> Message:
    """Read one of several answers: what holds the message, and how it ended."""
    taking = Taking(bench.tree, node)
    inner = taking.take("message", "object") or taking.take("content", "object")
    if inner is None:
        return message(bench, node)
    said = message(bench, inner)
    facts = bench.known(
        ("Answer", taking.plain("index")),
        ("Finish", taking.word("finish_reason") or taking.word("finishReason")),
    )
    taking.drop("logprobs", "null")
    rest = taking.rest()
    more = [bench.json("beside it", rest)] if rest else []
    return Message(said.role, said.blocks + more, said.facts + facts)


def message(bench: Bench, node: Node) -> Message:
    """Read one message; what is none is shown as a block of its own."""
    taking = Taking(bench.tree, node)
    role = taking.word("role")
    if node.kind != "object" or not (role or taking.look("content") or taking.look("parts")):
        return Message("", [block(bench, node)])
    facts = bench.known(("Answers call", taking.word("tool_call_id")), ("Name", taking.word("name")))
    thoughts = [taking.word(name) for name in ("reasoning_content", "reasoning")]
    blocks = [bench.text("reasoning", said) for said in thoughts if said]
    for name in ("content", "parts"):
        content = taking.take(name, "string", "array")
        if content is not None:
            blocks += blocks_of(bench, content)
    blocks += [_call(bench, each) for each in taking.items("tool_calls")]
    for name in ("content", "refusal", "tool_calls", "function_call", "audio"):
        taking.drop(name, "null")
    taking.drop("type", '"message"')
    if rest := taking.rest():
        blocks.append(bench.json("beside it", rest))
    return Message(bench.marked(role), blocks, facts)


def blocks_of(bench: Bench, content: Node) -> Iterator[Block]:
    """Yield what a message's content holds."""
    if content.kind == "array":
        yield from (block(bench, each) for each in content.items)
    else:
        yield block(bench, content)


def block(bench: Bench, node: Node) -> Block:
    """Read one piece of content by its type, or by the only key that it has."""
    if node.kind != "object":
        return bench.value("text", node)
    taking = Taking(bench.tree, node)
    kind = bench.tree.string(taking.look("type")) or ""
    if kind in _CALLS or _any(taking, "functionCall", "toolUse"):
        return _call(bench, node)
    prose = _prose(bench, taking, kind)
    if prose is not None:
        return prose
    if kind in _RESULTS or _any(taking, "functionResponse", "toolResult"):
        kind = "tool result"
    elif kind in _MEDIA or _any(taking, "inlineData", "inline_data", "image"):
        kind = "media"
    return bench.json(kind or "json", [(None, node)])


def _any(taking: Taking, *keys: str) -> bool:
    return any(taking.look(key) is not None for key in keys)


def _prose(bench: Bench, taking: Taking, kind: str) -> Block | None:
    """Read text or thoughts, with what else the piece says; None where it is something else."""
    key, said = ("thinking", "reasoning") if kind == "thinking" else ("text", "text")
    if kind and kind not in _TEXTS and kind != "thinking":
        return None
    text = taking.take(key, "string")
    if text is None:
        return None
    taking.take("type", "string")
    return bench.text(said, bench.raw(text), taking.rest())


def _call(bench: Bench, node: Node) -> Block:
    """Read a tool call: its name, its id, and its arguments as they stand."""
    outer = Taking(bench.tree, node)
    inner = (
        outer.take("function", "object")
        or outer.take("functionCall", "object")
        or outer.take("toolUse", "object")
    )
    within = outer if inner is None else Taking(bench.tree, inner)
    outer.drop("type", '"function"', '"tool_use"', '"function_call"')
    call = outer.word("id") or outer.word("call_id") or within.word("toolUseId")
    name = within.word("name")
    said = within.take("arguments") or within.take("args") or within.take("input")
    rest = outer.rest() if inner is None else [*within.rest(), *outer.rest()]
    return bench.code("tool call", bench.raw(said), rest, name=name, facts=bench.known(("Id", call)))


def _tool(bench: Bench, node: Node) -> Block:
    taking = Taking(bench.tree, node)
    inner = taking.look("function")
    named = Taking(bench.tree, inner) if inner is not None else taking
    return bench.json("tool", [(None, node)], name=named.word("name"))
