"""From a draft to an output: what is only known at the end is said here."""

from typing import Final, Literal, NamedTuple

from msgspec import UNSET, UnsetType

from custody_client.streams.decoding import is_json
from custody_client.streams.draft import Draft
from custody_client.streams.markup import found_in
from custody_client.streams.output import (
    Arguments,
    ArgumentsState,
    Choice,
    LimitsMet,
    Markup,
    Output,
    Reasoning,
    Route,
    Stream,
    Text,
    ToolCall,
    Unknown,
    Vantage,
)
from custody_client.streams.words import Budget, cost_of

_CALL_BYTES: Final = 192  # of JSON around the name and the arguments


class Origin(NamedTuple):
    """Of whom an output is, and who saw it."""

    vantage: Vantage
    provider: str
    route: Route


def built(
    draft: Draft,
    *,
    origin: Origin,
    stream: Stream,
    dropped_events: int,
    remarks: list[str],
    unknown: Unknown | None,
    shape: Literal["unrecognised"] | UnsetType,
) -> Output:
    """Give the output of what a draft holds."""
    room = Budget(draft.budget.left)
    choices = [draft.choices[index].build(finished=draft.finished) for index in sorted(draft.choices)]
    markup = [one for choice in choices for one in _annotated(choice, draft.limits.markup, room)]
    truncated = draft.budget.overdrawn or dropped_events > 0
    remarks = [*remarks, "markup-calls-left-out"] if room.overdrawn else remarks
    return Output(
        vantage=origin.vantage,
        provider=origin.provider,
        route=origin.route,
        response_id=draft.response_id,
        model=draft.model,
        choices=choices,
        stream=stream,
        usage=draft.usage.build(),
        markup=markup[: draft.limits.markup],
        limits=LimitsMet(truncated, draft.dropped_fragments, draft.dropped_items, dropped_events),
        notes=[*draft.notes, *remarks],
        facts=draft.facts.build() or UNSET,
        unknown=unknown or UNSET,
        shape=shape,
    )


def _annotated(choice: Choice, limit: int, room: Budget) -> list[Markup]:
    """Find what is spelled out in a choice's texts, and list the calls in it behind its items."""
    markup: list[Markup] = []
    calls: list[tuple[str, str]] = []
    for at, item in enumerate(choice.items):
        if not isinstance(item, Text | Reasoning):
            continue
        for found in found_in(item.text, limit - len(markup)):
            markup.append(Markup(found.dialect, at, found.start, found.end, found.complete, choice.index))
            calls += found.calls if isinstance(item, Text) else []
    ordinal = sum(isinstance(item, ToolCall) for item in choice.items)
    fitting = [call for call in calls if _fits(call, room)]
    choice.items.extend(_derived(ordinal + at, *call) for at, call in enumerate(fitting))
    return markup


def _fits(call: tuple[str, str], room: Budget) -> bool:
    """Tell whether a call that stands in a text already may be listed beside it."""
    size = cost_of(call[0]) + cost_of(call[1]) + _CALL_BYTES
    room.overdrawn = room.overdrawn or size > room.left
    room.left -= 0 if room.overdrawn else size
    return not room.overdrawn


def _derived(ordinal: int, name: str, arguments: str) -> ToolCall:
    state: ArgumentsState = "valid-json" if is_json(arguments) else "invalid-json" if arguments else "empty"
    return ToolCall(ordinal, None, None, None, name, Arguments(arguments, state), "markup")
