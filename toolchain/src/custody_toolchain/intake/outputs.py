"""An answer as `observable-output/1` records it: its calls, and in their fragments what was odd about them.

That format notes what it saw and decides nothing; here it is decided by the same rules as for an answer itself.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct

from custody_toolchain.intake.bounds import Limits, within_envelope
from custody_toolchain.intake.draft import AnswerDraft, CallDraft, given_id
from custody_toolchain.intake.exact_json import check_values
from custody_toolchain.intake.results import Refused
from custody_toolchain.intake.words import Boundary, Why

SCHEMA: Final = "observable-output/1"
_CHAT: Final = "chat.completions"
# Only these pair results by an id of every call; others have none, or name it in the block that holds the call.
_WITHOUT_IDS: Final = frozenset({"gemini", "ollama.chat"})
_LEGACY: Final = "function-call-legacy"
_NOTES: Final = {
    "id-changed": Why.ID_CHANGED,
    "id-repeated": Why.ID_REPEATED,
    "partial-arguments": Why.PARTIAL_ARGUMENTS,
    "arguments-not-text": Why.WRONG_TYPE,
    "arguments-differ-from-done": Why.ARGUMENTS_CONFLICT,
    "delta-for-unopened-block": Why.UNOPENED,
    "block-changed-type": Why.WRONG_TYPE,
}
_ASSEMBLY: Final = "assembly-failed"


class _Fragment(Struct):
    index: Any = UNSET
    id: Any = UNSET
    name: Any = UNSET
    missing: list[str] = []


class _Arguments(Struct):
    raw: str
    state: str
    fragments: list[_Fragment] = []


class _Item(Struct):
    type: str
    text: str = ""
    id: str | None = None
    item_id: str | None = None
    name: str | None = None
    arguments: _Arguments | None = None
    origin: str = "structured"
    opaque: dict[str, Any] = {}
    cut: Any = UNSET


class _Finish(Struct):
    reason: str | None = None


class _Choice(Struct):
    index: int
    items: list[_Item]
    finish: _Finish | None = None


class _Stream(Struct):
    state: str
    streamed: bool = True


class _Route(Struct):
    api: str = ""


class _LimitsMet(Struct):
    dropped_items: int = 0
    dropped_events: int = 0


class _Output(Struct):
    schema: str
    choices: list[_Choice]
    stream: _Stream
    route: _Route = msgspec.field(default_factory=_Route)
    response_id: str | None = None
    model: str | None = None
    limits: _LimitsMet = msgspec.field(default_factory=_LimitsMet)
    notes: list[str] = []
    shape: str | None = None


def taken(value: Mapping[str, Any], limits: Limits) -> AnswerDraft:
    """Return what a decoded output holds; Refused if it is none."""
    check_values(dict(value), within_envelope(limits))
    try:
        output = msgspec.convert(value, _Output)
    except msgspec.ValidationError:
        raise Refused(Why.UNKNOWN_SHAPE, Boundary.ANSWER) from None
    if output.schema != SCHEMA or output.shape == "unrecognised":
        raise Refused(Why.UNKNOWN_SHAPE, Boundary.ANSWER)
    draft = AnswerDraft(output.route.api, limits)
    draft.recognised = True
    draft.head(output.response_id, output.model)
    draft.state = output.stream.state
    draft.failed = output.stream.state == "error"
    draft.notes = dict.fromkeys(output.notes)
    for choice in output.choices:
        draft.finish(choice.finish and choice.finish.reason, choice.index)
    try:
        _items(draft, output)
        _judged(draft, output)
    except Refused as refused:
        draft.refuse(refused)
    return draft


def _items(draft: AnswerDraft, output: _Output) -> None:
    for choice in output.choices:
        for place, item in enumerate(choice.items):
            if item.type == "text":
                draft.say(item.text, choice.index, place)
                draft.text_cut = draft.text_cut or item.cut is not UNSET
            elif item.type == "refusal":
                draft.declined(choice.index)
            elif item.type == "tool_call" and item.origin == "structured":
                _call(draft, item, choice.index)


def _call(draft: AnswerDraft, item: _Item, choice: int) -> None:
    call = draft.call(len(draft.calls), choice)
    call.call_id, call.item_id, call.name = item.id, item.item_id, item.name
    draft.keep(call, item.opaque)
    if item.arguments is None:
        raise Refused(Why.UNKNOWN_SHAPE, Boundary.CALL).within(Boundary.CALL, call=call.ordinal)
    draft.add(call, item.arguments.raw)
    state = item.arguments.state
    call.is_text, call.cut = state == "text", state == "incomplete"
    try:
        _recorded_whole(state)
        _fragments(draft, call, item.arguments.fragments)
        _identity(draft, call)
    except Refused as refused:
        raise refused.within(Boundary.CALL, call=call.ordinal) from None


def _recorded_whole(state: str) -> None:
    if state == "truncated":
        raise Refused(Why.NOT_RECORDED_WHOLE, Boundary.ARGUMENTS)


def _identity(draft: AnswerDraft, call: CallDraft) -> None:
    """Refuse a call without the id by which its result is paired, or with one that is taken."""
    if call.call_id is None:
        legacy = draft.api == _CHAT and _LEGACY in draft.notes
        if draft.api not in _WITHOUT_IDS and not legacy:
            raise Refused(Why.ID_MISSING, Boundary.CALL)
    elif given_id(call.call_id) is not None:
        key = (call.choice, "id", call.call_id)
        if draft.known(key) is not None:
            raise Refused(Why.ID_REPEATED, Boundary.CALL)
        draft.name(key, call)
    if call.name is None:
        raise Refused(Why.NAME_MISSING, Boundary.CALL)


def _fragments(draft: AnswerDraft, call: CallDraft, fragments: list[_Fragment]) -> None:
    if draft.api != _CHAT:
        return
    for at, fragment in enumerate(fragments):
        index = fragment.index
        if index is not UNSET and index is not None and (type(index) is not int or index < 0):
            raise Refused(Why.WRONG_TYPE, Boundary.CALL)
        if at == 0:
            _first(fragment, legacy=_LEGACY in draft.notes and call.call_id is None)
        else:
            _later(fragment, call)


def _first(fragment: _Fragment, *, legacy: bool) -> None:
    if fragment.id is not UNSET:
        given_id(fragment.id)
        raise Refused(Why.ID_NULL if fragment.id is None else Why.ID_EMPTY, Boundary.CALL)
    if "id" in fragment.missing and not legacy:
        raise Refused(Why.ID_MISSING, Boundary.CALL)
    if fragment.name is not UNSET or "name" in fragment.missing:
        is_none = fragment.name is UNSET or fragment.name is None or fragment.name == ""
        raise Refused(Why.NAME_MISSING if is_none else Why.WRONG_TYPE, Boundary.CALL)


def _later(fragment: _Fragment, call: CallDraft) -> None:
    if fragment.id is not UNSET:
        found = given_id(fragment.id)
        if found is not None and found != (call.call_id or "")[: len(found)]:
            raise Refused(Why.ID_CHANGED, Boundary.CALL)
    if fragment.name is not UNSET and fragment.name is not None and fragment.name != "":
        if not isinstance(fragment.name, str):
            raise Refused(Why.WRONG_TYPE, Boundary.CALL)
        if fragment.name != (call.name or "")[: len(fragment.name)]:
            raise Refused(Why.NAME_CHANGED, Boundary.CALL)


def _judged(draft: AnswerDraft, output: _Output) -> None:
    """Refuse for what was noted of the whole answer, where calls are in it."""
    if output.limits.dropped_items or output.limits.dropped_events:
        raise Refused(Why.NOT_RECORDED_WHOLE, Boundary.ANSWER)
    if any(note.startswith(_ASSEMBLY) for note in draft.notes):
        raise Refused(Why.NOT_RECORDED_WHOLE, Boundary.STREAM)
    if not draft.calls:
        return
    for note, why in _NOTES.items():
        if note in draft.notes:
            raise Refused(why, Boundary.CALL)
    if draft.api != _CHAT and "index-reused" in draft.notes:
        raise Refused(Why.INDEX_REUSED, Boundary.CALL)
