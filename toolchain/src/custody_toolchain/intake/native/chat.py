"""Chat completions, and to which call each piece of a stream belongs.

A piece with no index, an index that is used again by another named call, and a continuation with no id are read. A
first piece without an id, another id for the same call, and the text "null" for an id are refused: what would be made
of them is a guess, and results are paired by id.
"""

from collections.abc import Mapping
from typing import Any, Final

from custody_toolchain.intake.draft import (
    AnswerDraft,
    CallDraft,
    given_id,
    given_name,
    kind_of,
    listed,
    mapping,
    of,
    required_id,
)
from custody_toolchain.intake.results import Refused
from custody_toolchain.intake.words import Boundary, Why

Event = Mapping[str, Any]

_KNOWN: Final = frozenset({"index", "id", "type", "function", "custom"})
_KNOWN_INSIDE: Final = frozenset({"name", "arguments", "input"})
# Some that stream say all of a message again beside what is new: that is not read.
_TEXTS: Final = frozenset({"text", "output_text"})


def whole(draft: AnswerDraft, body: Event) -> None:
    """Take an answer that did not stream."""
    _head(draft, body)
    for choice in listed(body.get("choices")):
        said = mapping(choice)
        at = _choice(said)
        draft.finish(said.get("finish_reason"), at)
        message = mapping(said.get("message"))
        _content(draft, message, at)
        for piece in listed(message.get("tool_calls")):
            take_piece(draft, mapping(piece, Boundary.CALL), at, streamed=False)
        _function_call(draft, message, at)
    draft.terminal = True


def chunk(draft: AnswerDraft, event: Event) -> None:
    """Take one chunk; one without choices, or with a choice without `delta`, holds nothing of a call."""
    _head(draft, event)
    for choice in listed(event.get("choices")):
        said = mapping(choice)
        at = _choice(said)
        draft.finish(said.get("finish_reason"), at)
        delta = mapping(said.get("delta"))
        _content(draft, delta, at)
        for piece in listed(delta.get("tool_calls")):
            take_piece(draft, mapping(piece, Boundary.CALL), at, streamed=True)
        _function_call(draft, delta, at)


def take_piece(
    draft: AnswerDraft, piece: Event, choice: int, *, streamed: bool, needs_id: bool = True
) -> None:
    """Take a piece of a call, or a whole one."""
    inside = "custom" if piece.get("type") == "custom" or piece.get("function") is None else "function"
    function = mapping(piece.get(inside), Boundary.CALL)
    call = _found(draft, piece, function, choice) if streamed else None
    if call is None:
        call = _begun(draft, piece, function, choice, needs_id=needs_id, streamed=streamed)
        call.is_text = inside == "custom"
    _arguments(draft, call, function.get("input" if call.is_text else "arguments"))
    draft.keep(call, {key: value for key, value in piece.items() if key not in _KNOWN and value is not None})
    inner = {key: value for key, value in function.items() if key not in _KNOWN_INSIDE and value is not None}
    draft.keep(call, inner)


def _found(draft: AnswerDraft, piece: Event, function: Event, choice: int) -> CallDraft | None:
    """Return the call that a piece goes on with, or None if it begins one."""
    index, call_id = _index(piece), given_id(piece.get("id"))
    name = given_name(function.get("name"))
    if index is None:
        call = _without_index(draft, call_id, name, choice)
    else:
        call = draft.known((choice, index))
        if call is not None and call_id is not None and call_id != call.call_id and name is not None:
            draft.notes["index-reused"] = None
            return None
    if call is None:
        return None
    if call_id is not None and call_id != call.call_id:
        raise of(call, Why.ID_CHANGED)
    if name is not None and name != call.name:
        raise of(call, Why.NAME_CHANGED)
    return call


def _without_index(
    draft: AnswerDraft, call_id: str | None, name: str | None, choice: int
) -> CallDraft | None:
    draft.notes["index-missing"] = None
    if call_id is not None:
        return draft.known((choice, "id", call_id))
    return draft.known((choice, "last")) if name is None else None


def _begun(
    draft: AnswerDraft, piece: Event, function: Event, choice: int, *, needs_id: bool, streamed: bool
) -> CallDraft:
    index = _index(piece)
    call_id = required_id(piece, "id") if needs_id else given_id(piece.get("id"))
    call = draft.begin((choice, "last"), function.get("name"), call_id, choice)
    if index is not None and streamed:
        draft.name((choice, index), call)
    return call


def _arguments(draft: AnswerDraft, call: CallDraft, piece: object) -> None:
    if piece is None:
        return
    if isinstance(piece, str):
        draft.add(call, piece)
    elif isinstance(piece, Mapping) and call.arguments is None and not call.is_text:
        draft.notes["arguments-object"] = None
        draft.give(call, piece)
    else:
        why = Why.ARGUMENTS_CONFLICT if isinstance(piece, Mapping) else Why.WRONG_TYPE
        raise of(call, why, Boundary.ARGUMENTS)


def _function_call(draft: AnswerDraft, message: Event, choice: int) -> None:
    """Take the single call of the older form, which has neither index nor id."""
    function = mapping(message.get("function_call"), Boundary.CALL)
    if not any(function.values()):
        return
    name = given_name(function.get("name"))
    call = draft.known((choice, "function_call"))
    if call is None:
        draft.notes["function-call-legacy"] = None
        call = draft.call((choice, "function_call"), choice)
        call.name = name
    elif name is not None and name != call.name:
        raise of(call, Why.NAME_CHANGED)
    _arguments(draft, call, function.get("arguments"))


def _content(draft: AnswerDraft, message: Event, choice: int) -> None:
    """Take what was said: a text, or parts of which only texts are read."""
    content = message.get("content")
    if isinstance(content, list | tuple):
        for part in content:
            if isinstance(part, Mapping) and kind_of(part) in _TEXTS:
                draft.say(part.get("text"), choice)
    else:
        draft.say(content, choice)
    if message.get("refusal"):
        draft.declined(choice)


def _head(draft: AnswerDraft, event: Event) -> None:
    draft.recognised = draft.recognised or "choices" in event or "usage" in event
    draft.failed = draft.failed or bool(event.get("error"))
    draft.head(event.get("id"), event.get("model"))


def _choice(said: Event) -> int:
    index = said.get("index", 0)
    if type(index) is not int:
        raise Refused(Why.WRONG_TYPE, Boundary.ANSWER)
    return index


def _index(piece: Event) -> int | None:
    """Return the index, None for none; Refused where it is no number of a call."""
    index = piece.get("index")
    if index is None:
        return None
    if type(index) is not int or index < 0:
        raise Refused(Why.WRONG_TYPE, Boundary.CALL)
    return index
