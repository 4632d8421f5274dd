"""Amazon's Bedrock Converse: blocks by their index, each event an object with its type as the key."""

from collections.abc import Mapping
from typing import Any, Final

from custody_toolchain.intake.draft import AnswerDraft, listed, mapping, of, place, required_id
from custody_toolchain.intake.results import Refused
from custody_toolchain.intake.words import Boundary, Why

Event = Mapping[str, Any]

_SERVER: Final = "server_tool_use"
_KNOWN: Final = frozenset({"toolUseId", "name", "input", "type"})
_EXCEPTION: Final = "Exception"


def whole(draft: AnswerDraft, body: Event) -> None:
    """Take an answer that did not stream."""
    output = body.get("output")
    message = mapping(output.get("message") if isinstance(output, Mapping) else None)
    draft.recognised = bool(message)
    draft.finish(body.get("stopReason"))
    draft.terminal = True
    draft.failed = not message and ("message" in body or "__type" in body)
    for at, block in enumerate(listed(message.get("content"))):
        said = mapping(block)
        draft.say(said.get("text"), block=at)
        cited = said.get("citationsContent")
        for part in listed(mapping(cited).get("content")):
            draft.say(mapping(part).get("text"), block=at)
        if said.get("toolUse") is not None:
            _tool(draft, at, mapping(said["toolUse"], Boundary.CALL), streamed=False)


def chunk(draft: AnswerDraft, event: Event) -> None:
    """Take one event."""
    for kind, value in event.items():
        if str(kind).endswith(_EXCEPTION):
            draft.failed = True
        elif isinstance(value, Mapping):
            _take(draft, kind, value)


def _take(draft: AnswerDraft, kind: str, value: Event) -> None:
    if kind == "messageStart":
        draft.recognised = True
    elif kind == "contentBlockStart":
        draft.recognised = True
        start = mapping(value.get("start"))
        if start.get("toolUse") is not None:
            _tool(
                draft,
                place(value.get("contentBlockIndex")),
                mapping(start["toolUse"], Boundary.CALL),
                streamed=True,
            )
    elif kind == "contentBlockDelta":
        draft.recognised = True
        _delta(draft, place(value.get("contentBlockIndex")), mapping(value.get("delta")))
    elif kind == "contentBlockStop":
        call = draft.known(place(value.get("contentBlockIndex")))
        if call is not None:
            call.cut = False
    elif kind == "messageStop":
        draft.finish(value.get("stopReason"))
        draft.terminal = True


def _tool(draft: AnswerDraft, at: int, tool: Event, *, streamed: bool) -> None:
    if not draft.open(at):
        raise Refused(Why.INDEX_REUSED, Boundary.CALL)
    if tool.get("type") == _SERVER:
        return
    call = draft.begin(at, tool.get("name"), required_id(tool, "toolUseId"))
    call.cut = streamed  # until it is closed
    if not streamed:
        draft.give(call, tool.get("input"))
    draft.keep(call, {key: value for key, value in tool.items() if key not in _KNOWN and value is not None})


def _delta(draft: AnswerDraft, at: int, delta: Event) -> None:
    draft.say(delta.get("text"), block=at)
    tool = delta.get("toolUse")
    call = draft.known(at)
    if tool is None:
        return
    if call is None:
        if at not in draft.opened:
            raise Refused(Why.UNOPENED, Boundary.CALL)
        return  # of a tool that the provider runs itself
    piece = mapping(tool, Boundary.CALL).get("input")
    if isinstance(piece, str):
        draft.add(call, piece)
    elif isinstance(piece, Mapping) and call.arguments is None and not call.pieces:
        draft.give(call, piece)
    elif piece is not None:
        raise of(call, Why.WRONG_TYPE, Boundary.ARGUMENTS)
