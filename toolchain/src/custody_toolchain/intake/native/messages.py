"""Anthropic's messages: blocks that are opened, filled and closed by their index."""

from collections.abc import Mapping
from typing import Any, Final

from custody_toolchain.intake.draft import AnswerDraft, CallDraft, listed, mapping, of, place, required_id
from custody_toolchain.intake.results import Refused
from custody_toolchain.intake.words import Boundary, Why

Event = Mapping[str, Any]

_KNOWN: Final = frozenset({"type", "id", "name", "input"})


def whole(draft: AnswerDraft, body: Event) -> None:
    """Take an answer that did not stream."""
    _failed(draft, body)
    draft.recognised = isinstance(body.get("content"), list | tuple)
    draft.finish(body.get("stop_reason"))
    draft.terminal = True
    draft.head(body.get("id"), body.get("model"))
    for at, block in enumerate(listed(body.get("content"))):
        said = mapping(block)
        _block(draft, at, said)
        call = draft.known(at)
        if call is not None:
            call.arguments = said.get("input")
            call.cut = False


def chunk(draft: AnswerDraft, event: Event) -> None:
    """Take one event."""
    kind = event.get("type")
    if kind == "message_start":
        draft.recognised = True
        message = mapping(event.get("message"))
        draft.head(message.get("id"), message.get("model"))
    elif kind == "content_block_start":
        draft.recognised = True
        _block(draft, place(event.get("index")), mapping(event.get("content_block")))
    elif kind == "content_block_delta":
        _delta(draft, place(event.get("index")), mapping(event.get("delta")))
    elif kind == "content_block_stop":
        call = draft.known(place(event.get("index")))
        if call is not None:
            call.cut = False
    elif kind == "message_delta":
        draft.finish(mapping(event.get("delta")).get("stop_reason"))
    elif kind == "message_stop":
        draft.terminal = True
    else:
        _failed(draft, event)


def _block(draft: AnswerDraft, at: int, block: Event) -> None:
    if not draft.open(at):
        raise Refused(Why.INDEX_REUSED, Boundary.CALL)
    kind = block.get("type")
    if kind == "text":
        draft.say(block.get("text"), block=at)
    elif kind == "tool_use":
        _tool_use(draft, at, block)


def _tool_use(draft: AnswerDraft, at: int, block: Event) -> None:
    call = draft.begin(at, block.get("name"), required_id(block, "id"))
    call.cut = True  # until it is closed
    initial = block.get("input")
    if initial:  # mostly an empty object at the head of a block that is filled afterwards
        draft.give(call, initial)
    draft.keep(call, {key: value for key, value in block.items() if key not in _KNOWN and value is not None})


def _delta(draft: AnswerDraft, at: int, delta: Event) -> None:
    kind = delta.get("type")
    if at not in draft.opened:
        raise Refused(Why.UNOPENED, Boundary.CALL)
    if kind == "text_delta":
        draft.say(delta.get("text"), block=at)
    elif kind == "input_json_delta":
        call, piece = draft.known(at), delta.get("partial_json")
        if call is not None:
            _piece(draft, call, piece)


def _piece(draft: AnswerDraft, call: CallDraft, piece: object) -> None:
    if not isinstance(piece, str):
        raise of(call, Why.WRONG_TYPE, Boundary.ARGUMENTS)
    if piece and call.arguments is not None:
        raise of(call, Why.ARGUMENTS_CONFLICT, Boundary.ARGUMENTS)
    draft.add(call, piece)


def _failed(draft: AnswerDraft, event: Event) -> None:
    if event.get("type") == "error" or event.get("error"):
        draft.failed = True
