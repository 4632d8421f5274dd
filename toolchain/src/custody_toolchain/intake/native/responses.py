"""OpenAI's Responses: items that are announced, filled and sent whole at their end, all three of one content."""

from collections.abc import Mapping
from typing import Any, Final

from custody_toolchain.intake.draft import (
    AnswerDraft,
    CallDraft,
    kind_of,
    listed,
    mapping,
    of,
    place,
    required_id,
    short,
)
from custody_toolchain.intake.results import Refused
from custody_toolchain.intake.words import Boundary, Why

Event = Mapping[str, Any]

_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
# Tools of the provider's making that the caller runs: what it is to do is an object under this key.
_ACTIONS: Final = {
    "computer_call": "action",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
}
_KNOWN: Final = frozenset({"type", "id", "call_id", "name", "status", *_CALLS.values(), *_ACTIONS.values()})
_BEGINNINGS: Final = frozenset({"response.created", "response.in_progress", "response.queued"})
_ENDS: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
)
# An answer that is made in the background and was asked for too early: more may come.
_UNDER_WAY: Final = ("queued", "in_progress")
# Of an item that was sent whole: it is not, whatever is said of the answer around it.
_UNFINISHED: Final = ("in_progress", "incomplete")
_DELTAS: Final = frozenset(
    {"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"}
)
_DONES: Final = {
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.done": "input",
}


def whole(draft: AnswerDraft, body: Event) -> None:
    """Take an answer that did not stream."""
    draft.recognised = isinstance(body.get("output"), list | tuple)
    if body.get("status") in _UNDER_WAY:
        raise Refused(Why.CUT, Boundary.ANSWER)
    _response(draft, body)
    draft.terminal = True


def chunk(draft: AnswerDraft, event: Event) -> None:
    """Take one event."""
    kind = kind_of(event)
    if kind in _BEGINNINGS:
        draft.recognised = True
        response = mapping(event.get("response"))
        draft.head(response.get("id"), response.get("model"))
    elif kind in _ENDS:
        draft.recognised = draft.terminal = True
        _response(draft, mapping(event.get("response")))
    elif kind in {"response.output_item.added", "response.output_item.done"}:
        draft.recognised = True
        done = kind == "response.output_item.done"
        _item(draft, place(event.get("output_index")), mapping(event.get("item")), done=done)
    elif kind in _DELTAS:
        _delta(draft, event)
    elif kind in _DONES:
        _settle(draft, _opened(draft, event), event.get(_DONES[kind]))
    elif kind == "response.output_text.delta":
        draft.say(event.get("delta"), block=(event.get("output_index"), event.get("content_index")))
        draft.open(_DELTAS)
    elif kind == "response.refusal.delta":
        draft.declined()
    elif kind == "error" or event.get("error"):
        draft.failed = True


def _response(draft: AnswerDraft, response: Event) -> None:
    draft.head(response.get("id"), response.get("model"))
    draft.failed = draft.failed or bool(response.get("error"))
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, Mapping) else None
    draft.finish(reason or response.get("status"))
    for at, item in enumerate(listed(response.get("output"))):
        _item(draft, at, mapping(item), done=True)


def _item(draft: AnswerDraft, at: int, item: Event, *, done: bool) -> None:
    kind = kind_of(item)
    if done:
        draft.mark(at, finished=item.get("status") not in _UNFINISHED)
    if kind == "message":
        if done and _DELTAS not in draft.opened:
            _message(draft, at, item)
    elif kind in _CALLS or kind in _ACTIONS:
        _call(draft, at, item, kind, done=done)


def _message(draft: AnswerDraft, at: int, item: Event) -> None:
    """Take a message that is sent whole, once: in its own event, or with the response."""
    if not draft.open((at, "message")):
        return
    for nth, part in enumerate(listed(item.get("content"))):
        said = mapping(part)
        if said.get("type") == "output_text":
            draft.say(said.get("text"), block=(at, nth))
        elif said.get("type") == "refusal":
            draft.declined()


def _call(draft: AnswerDraft, at: int, item: Event, kind: str, *, done: bool) -> None:
    call = draft.known(at)
    if call is None:
        call = _begun(draft, at, item, kind)
    elif item.get("call_id") != call.call_id:
        raise of(call, Why.ID_CHANGED)
    elif kind in _CALLS and item.get("name") != call.name:
        raise of(call, Why.NAME_CHANGED)
    if done:
        _settle(draft, call, item.get(_CALLS.get(kind) or _ACTIONS[kind]))
        call.cut = item.get("status") in _UNFINISHED


def _begun(draft: AnswerDraft, at: int, item: Event, kind: str) -> CallDraft:
    name = kind.removesuffix("_call") if kind in _ACTIONS else item.get("name")
    call = draft.begin(at, name, required_id(item, "call_id"))
    call.item_id = short(item.get("id"))
    call.is_text, call.cut = kind == "custom_tool_call", True
    draft.keep(call, {key: value for key, value in item.items() if key not in _KNOWN and value is not None})
    return call


def _opened(draft: AnswerDraft, event: Event) -> CallDraft:
    """Return the call of which an event speaks; one that was never announced has neither id nor name."""
    call = draft.known(place(event.get("output_index")))
    if call is None:
        raise Refused(Why.ID_MISSING, Boundary.CALL)
    return call


def _delta(draft: AnswerDraft, event: Event) -> None:
    call, piece = _opened(draft, event), event.get("delta")
    if not isinstance(piece, str):
        raise of(call, Why.WRONG_TYPE, Boundary.ARGUMENTS)
    draft.add(call, piece)


def _settle(draft: AnswerDraft, call: CallDraft, given: object) -> None:
    """Hold the whole arguments against their pieces; take them where there were none."""
    if isinstance(given, str):
        said = "".join(call.pieces)
        if not said:
            draft.add(call, given)
        elif said != given:
            raise of(call, Why.ARGUMENTS_CONFLICT, Boundary.ARGUMENTS)
        else:
            call.pieces = [said]
        call.cut = False
    elif isinstance(given, Mapping):
        if call.pieces or (call.arguments is not None and call.arguments != given):
            raise of(call, Why.ARGUMENTS_CONFLICT, Boundary.ARGUMENTS)
        if call.arguments is None:
            draft.give(call, given)
        call.cut = False
    elif given is not None:
        raise of(call, Why.WRONG_TYPE, Boundary.ARGUMENTS)
