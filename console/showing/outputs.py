"""`observable-output/1` and `logical-request/1`, the client's own documents (docs/outputs.md), laid out.

What they leave null is unknown and is shown as that: no number of tokens is not zero.
"""

from collections.abc import Iterator
from typing import Final

from console.showing.blocks import Bench, Block, Fact, Layout, Message
from console.showing.json_tree import Node
from console.showing.measures import exact
from console.showing.messages import conversation
from console.showing.objects import Taking

_REQUEST: Final = "logical-request/1"
_OUTPUT: Final = "observable-output/1"
_TOKENS: Final = (
    ("input", "Input tokens"),
    ("output", "Output tokens"),
    ("reasoning", "Reasoning tokens"),
    ("cache_read", "Tokens from cache"),
    ("cache_write", "Tokens to cache"),
)
_STATES: Final = {
    "completed": "completed: the provider's last word came",
    "finished-no-terminal": "finished, and the last word is missing",
    "interrupted": "interrupted: neither a reason for stopping nor a last word came",
    "cancelled": "cancelled: the consumer closed first",
    "error": "error: the provider sent one",
}


def document(bench: Bench, root: Node) -> Layout | None:
    """Lay out a document by its schema, or by the shapes that messages usually have; None where it has none."""
    if root.kind != "object":
        return None
    schema = bench.tree.string(Taking(bench.tree, root).look("schema"))
    if schema == _OUTPUT:
        return _output(bench, root)
    if schema == _REQUEST:
        return _request(bench, root)
    return conversation(bench, root)


def _request(bench: Bench, root: Node) -> Layout | None:
    taking = Taking(bench.tree, root)
    body = taking.take("body", "object")
    inner = None if body is None else conversation(bench, body)
    if inner is None:
        return None
    taking.take("schema")
    rest = inner.rest + _beside(bench, taking, _route(bench, taking))
    return Layout(_called(bench, root), inner.messages, rest)


def _output(bench: Bench, root: Node) -> Layout:
    taking = Taking(bench.tree, root)
    taking.take("schema")
    facts = [
        *_called(bench, root),
        *_stream(bench, taking),
        *_usage(bench, taking),
        *_left_out(bench, taking),
    ]
    _route(bench, taking)
    remarks = [bench.marked(bench.raw(each)) for each in taking.items("notes")]
    messages = [_choice(bench, node) for node in taking.items("choices")]
    for name in ("markup", "unknown", "facts"):
        taking.drop(name, "[]", "null", "{}")
    return Layout(facts, messages, _beside(bench, taking, []), remarks)


def _called(bench: Bench, root: Node) -> list[Fact]:
    """Return where a call went; read only, as the pairs that are shown with it are taken elsewhere."""
    taking = Taking(bench.tree, root)
    route = taking.take("route", "object")
    where = Taking(bench.tree, route) if route is not None else None
    host, api = ("", "") if where is None else (where.word("host"), where.word("api"))
    return [
        bench.fact("Provider", taking.word("provider")),
        bench.fact("Host", host),
        bench.fact("Interface", api),
        bench.fact("Model", taking.word("model")),
        *bench.known(("Response id", taking.word("response_id")), ("Seen from", taking.word("vantage"))),
    ]


def _route(bench: Bench, taking: Taking) -> list[Block]:
    """Take what `_called` shows; of a route, what it has besides stays."""
    for name in ("provider", "model", "response_id", "vantage"):
        taking.take(name, "string", "word")
    route = taking.take("route", "object")
    if route is None:
        return []
    left = Taking(bench.tree, route)
    left.take("host", "string")
    left.take("api", "string")
    return [bench.json("route", left.rest())] if left.rest() else []


def _stream(bench: Bench, taking: Taking) -> Iterator[Fact]:
    node = taking.take("stream", "object")
    stream = Taking(bench.tree, node) if node is not None else None
    if stream is None:
        yield bench.fact("Stream", None)
        return
    streamed = stream.plain("streamed") == "true"
    state = stream.word("state")
    yield bench.fact(
        "Stream", _STATES.get(state, state) if streamed else f"came whole; {_STATES.get(state, state)}"
    )
    if streamed:
        yield bench.fact("Chunks", stream.plain("chunks"))
        yield bench.fact("Last word", stream.plain("terminal"))
    error = stream.take("error", "object")
    if error is not None:
        yield bench.fact("Error", bench.tree.source(error))


def _usage(bench: Bench, taking: Taking) -> Iterator[Fact]:
    """Yield tokens as the provider counted them; those of which it said nothing are unknown, never zero."""
    node = taking.take("usage", "object", "word")
    usage = Taking(bench.tree, node) if node is not None else None
    for name, said in _TOKENS:
        number = "" if usage is None else usage.plain(name)
        yield bench.fact(said, number)
    source = "" if usage is None else usage.word("source")
    yield bench.fact("Counted by", None if source == "none" else source)


def _left_out(bench: Bench, taking: Taking) -> list[Fact]:
    """Say in a word where everything fitted; anything else stays, as it stands."""
    limits = taking.look("limits")
    if limits is None or any(bench.tree.source(each) not in {"false", "0"} for each in limits.items):
        return []
    taking.take("limits")
    return [bench.fact("Did not fit", "nothing")]


def _choice(bench: Bench, node: Node) -> Message:
    taking = Taking(bench.tree, node)
    facts = bench.known(("Answer", taking.plain("index")))
    finish = taking.take("finish", "object")
    ended = Taking(bench.tree, finish) if finish is not None else None
    reason, read_as = ("", "") if ended is None else (ended.word("reason"), ended.word("class"))
    facts += [bench.fact("Finish", reason), *bench.known(("Read as", read_as))]
    role = taking.word("role")
    blocks = [_item(bench, each) for each in taking.items("items")]
    for name in ("role", "finish"):
        taking.drop(name, "null")
    left = [*taking.rest(), *([] if ended is None else ended.rest())]
    more = [bench.json("beside it", left)] if left else []
    return Message(bench.marked(role), blocks + more, facts)


def _item(bench: Bench, node: Node) -> Block:
    taking = Taking(bench.tree, node)
    kind = taking.word("type")
    if kind in {"text", "refusal", "reasoning"}:
        form = taking.word("form")
        taking.drop("opaque", "{}")
        facts = bench.known(("Form", form if form != "text" else ""))
        return bench.text(kind, taking.word("text"), taking.rest(), facts=facts)
    if kind in {"tool_call", "server_tool"}:
        return _called_tool(bench, taking, "tool call" if kind == "tool_call" else "tool of the provider")
    if kind == "media":
        return _media(bench, taking)
    return bench.json(kind or "json", [(None, node)])


def _called_tool(bench: Bench, taking: Taking, kind: str) -> Block:
    arguments = taking.take("arguments", "object")
    inner = Taking(bench.tree, arguments) if arguments is not None else None
    raw, state = ("", "") if inner is None else (inner.word("raw"), inner.word("state"))
    if inner is not None:
        # Where its pieces were cut is what the stream view shows.
        inner.take("fragments")
    facts = [
        bench.fact("Id", taking.plain("id")),
        bench.fact("Arguments", state),
        *bench.known(
            ("Status", taking.word("status")),
            ("Origin", taking.word("origin")),
            ("Ordinal", taking.plain("ordinal")),
            ("Index on the wire", taking.plain("wire_index")),
        ),
    ]
    name = taking.word("name")
    taking.drop("opaque", "{}")
    for key in ("item_id", "name"):
        taking.drop(key, "null")
    rest = [*taking.rest(), *([] if inner is None else inner.rest())]
    return bench.code(kind, raw, rest, name=name, facts=facts)


def _media(bench: Bench, taking: Taking) -> Block:
    size = taking.plain("size")
    said = taking.word("media_type") or "media of unknown type"
    measured = exact(int(size)) if size.isdecimal() and len(size) < len("9" * 16) else size or "unknown size"
    taking.drop("media_omitted", "true")
    facts = bench.known(("SHA-256", taking.word("sha256")))
    return bench.text("media", f"{said}, {measured}; not kept", taking.rest(), facts=facts)


def _beside(bench: Bench, taking: Taking, more: list[Block]) -> list[Message]:
    left = taking.rest()
    blocks = more + ([bench.json("json", left)] if left else [])
    return [Message("other fields", blocks)] if blocks else []
