"""From an answer that was put together to all of its actions, or a refusal."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from msgspec import Struct, structs

from custody_toolchain.intake.bounds import DEFAULT, Limits, joined, name_of, text_of
from custody_toolchain.intake.call_objects import bounded
from custody_toolchain.intake.draft import AnswerDraft, CallDraft
from custody_toolchain.intake.exact_json import check_values, value_of
from custody_toolchain.intake.finishes import WHOLE_ALL_THE_SAME, class_of
from custody_toolchain.intake.markup import batch_in
from custody_toolchain.intake.reading import Types
from custody_toolchain.intake.results import Action, Native, Refused, Result
from custody_toolchain.intake.words import Boundary, Dialect, Source, Truncated, Why

BESIDE: Final = "markup-beside-calls"
EMPTY: Final = "arguments-empty"
_WHOLE: Final = frozenset({"completed", "finished-no-terminal"})
_NOT_WHOLE: Final = frozenset({"length", "content_filter", "error"})


class Options(Struct, frozen=True):
    """What the caller permits, and which of several answers is meant."""

    dialects: frozenset[Dialect] = frozenset()
    types: Types = {}
    alone: bool = False
    truncated: Truncated = Truncated.REFUSE
    choice: int = 0
    limits: Limits = DEFAULT
    echo: frozenset[str] = frozenset()


class _Made:
    """Actions, or why there are none; remarks beside them."""

    def __init__(self, notes: dict[str, None]) -> None:
        self.actions: list[Action] = []
        self.source: Source | None = None
        self.salvaged = False
        self.notes = notes


def decided(draft: AnswerDraft, options: Options, response: Any) -> Result:
    """Return all actions of a draft in order, or a refusal; both with what the provider said."""
    made, refusal = _Made(dict(draft.notes)), None
    try:
        _judge(draft, options)
        _make(draft, options, made)
    except Refused as refused:
        refusal = refused.within(Boundary.ANSWER).refusal(options.echo)
        made.actions, made.salvaged = [], False
    return Result(
        source=made.source,
        dialect=made.actions[0].dialect if made.actions else None,
        actions=tuple(made.actions),
        refusal=refusal,
        salvaged=made.salvaged,
        native=_native(draft, options, response),
        notes=tuple(made.notes),
    )


def refused(why: Refused, options: Options, response: Any) -> Result:
    """Return the refusal of something that could not even be put together."""
    return Result(refusal=why.within(Boundary.ANSWER).refusal(options.echo), native=Native(response=response))


def _native(draft: AnswerDraft, options: Options, response: Any) -> Native:
    reason = draft.finishes.get(options.choice)
    return Native(
        api=draft.api,
        response=response,
        response_id=draft.response_id,
        model=draft.model,
        finish=reason,
        finish_class=class_of(reason),
        stream=draft.state,
        call_ids=tuple(call.call_id for call in _calls(draft, options)),
    )


def _judge(draft: AnswerDraft, options: Options) -> None:
    """Refuse an answer of which nothing may be used, whatever is in it."""
    if draft.fault is not None:
        raise draft.fault
    if draft.failed:
        raise Refused(Why.ANSWER_FAILED, Boundary.ANSWER)
    if not draft.recognised:
        raise Refused(Why.UNKNOWN_SHAPE, Boundary.ANSWER)
    reason = draft.finishes.get(options.choice, "")
    named = class_of(reason)
    if named == "error" and reason.lower() != WHOLE_ALL_THE_SAME:
        raise Refused(Why.ANSWER_FAILED, Boundary.ANSWER)
    if named == "content_filter" and _calls(draft, options):
        raise Refused(Why.ANSWER_FILTERED, Boundary.ANSWER)
    if _declined(draft, options) and _calls(draft, options):
        raise Refused(Why.ANSWER_REFUSED, Boundary.ANSWER)


def _make(draft: AnswerDraft, options: Options, made: _Made) -> None:
    calls = _calls(draft, options)
    if calls:
        made.source = Source.NATIVE
        _from_calls(draft, calls, options, made)
        _beside(draft, options, made)
        return
    if draft.state not in _WHOLE:
        raise Refused(Why.CUT, Boundary.STREAM)
    text = _text(draft, options) if options.dialects else ""
    if text:
        made.source = Source.MARKUP
        found = batch_in(
            text,
            options.dialects,
            options.limits,
            options.types,
            complete=_is_whole(draft, options) and not draft.text_cut,
            alone=options.alone,
        )
        made.actions = list(found.actions)
        made.source = Source.MARKUP if found.actions else None
        made.notes |= dict.fromkeys(found.notes)


def _declined(draft: AnswerDraft, options: Options) -> bool:
    """Tell whether the model refused: by its finish reason, or by a text of its own kind."""
    return (
        options.choice in draft.refused_by_model or class_of(draft.finishes.get(options.choice)) == "refusal"
    )


def _calls(draft: AnswerDraft, options: Options) -> list[CallDraft]:
    return [call for call in draft.calls if call.choice == options.choice]


def _text(draft: AnswerDraft, options: Options) -> str:
    """Return what the model said; nothing of thoughts, refusals and what the provider's own tools gave."""
    if _declined(draft, options):
        return ""
    return text_of(joined(draft.texts.get(options.choice, [])), options.limits)


def _is_whole(draft: AnswerDraft, options: Options) -> bool:
    named = class_of(draft.finishes.get(options.choice))
    return draft.state in _WHOLE and not draft.unfinished and named not in _NOT_WHOLE


def _from_calls(draft: AnswerDraft, calls: list[CallDraft], options: Options, made: _Made) -> None:
    """Make the actions of native calls. A cut refuses all, or leaves the leading closed ones, as the caller said."""
    named = class_of(draft.finishes.get(options.choice))
    whole = draft.state in _WHOLE and not draft.unfinished and named != "length"
    cut: Refused | None = None
    for call in calls:
        try:
            made.actions.append(_action(call, options, made, whole=whole))
        except Refused as refused:
            refused.name = refused.name or call.name
            if refused.within(Boundary.CALL, call=len(made.actions)).why is not Why.CUT:
                raise
            cut = refused
            break
    if cut is None and not whole:
        cut = Refused(Why.CUT, Boundary.STREAM)
    if cut is None:
        return
    if options.truncated is Truncated.REFUSE or not made.actions:
        raise cut
    made.salvaged = True
    made.actions = [structs.replace(action, salvaged=True) for action in made.actions]


def _action(call: CallDraft, options: Options, made: _Made, *, whole: bool) -> Action:
    if call.cut or (call.is_text and not whole):  # of a text nobody can tell whether it is closed
        raise Refused(Why.CUT, Boundary.ARGUMENTS)
    name = name_of(call.name, options.limits)
    raw = None if call.arguments is not None and not any(call.pieces) else joined(call.pieces)
    arguments: dict[str, Any] = {}
    if call.is_text:
        text_of(raw or "", options.limits, Boundary.ARGUMENTS)
    elif raw is None:
        arguments = _object(call.arguments, options.limits)
    elif call.arguments is not None:
        raise Refused(Why.ARGUMENTS_CONFLICT, Boundary.ARGUMENTS)
    elif raw:
        arguments = _decoded(raw, options.limits)
    elif whole:
        made.notes[EMPTY] = None
    else:  # they may have been to come
        raise Refused(Why.CUT, Boundary.ARGUMENTS)
    return Action(
        ordinal=len(made.actions),
        name=name,
        arguments=arguments,
        source=Source.NATIVE,
        call_id=call.call_id,
        item_id=call.item_id,
        raw=None if call.is_text else raw,
        text=(raw or "") if call.is_text else None,
        opaque=call.opaque,
    )


def _decoded(raw: str, limits: Limits) -> dict[str, Any]:
    try:
        value = value_of(text_of(raw, limits, Boundary.ARGUMENTS), limits)
    except Refused as refused:
        raise refused.within(Boundary.ARGUMENTS) from None
    if not isinstance(value, dict):
        raise Refused(Why.NOT_AN_OBJECT, Boundary.ARGUMENTS)
    bounded(value, len(raw), limits)
    return value


def _object(given: object, limits: Limits) -> dict[str, Any]:
    """Return a copy of arguments that came as an object, checked as strictly as JSON would be."""
    if not isinstance(given, Mapping):
        raise Refused(Why.NOT_AN_OBJECT, Boundary.ARGUMENTS)
    value = dict(given)
    try:
        check_values(value, limits)
    except Refused as refused:
        raise refused.within(Boundary.ARGUMENTS) from None
    bounded(value, limits.parameter_bytes + 1, limits)
    return deepcopy(value)


def _beside(draft: AnswerDraft, options: Options, made: _Made) -> None:
    """Look at the text beside native calls: a stray mark is noted, a whole second batch is ambiguous."""
    if not options.dialects:
        return
    try:
        found = batch_in(
            _text(draft, options),
            options.dialects,
            options.limits,
            options.types,
            complete=True,
            alone=options.alone,
        )
    except Refused:
        made.notes[BESIDE] = None
        return
    if found.actions:
        raise Refused(Why.AMBIGUOUS, Boundary.ANSWER)
