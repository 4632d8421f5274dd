"""From a draft to an output: what is only known at the end is said here."""

from typing import Literal, NamedTuple

from msgspec import UNSET, UnsetType

from custody_client.streams.decoding import is_json
from custody_client.streams.draft import Draft
from custody_client.streams.markup import found_in
from custody_client.streams.output import (
    Arguments,
    ArgumentsState,
    Choice,
    Item,
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
    choices = [draft.choices[index].build(finished=draft.finished) for index in sorted(draft.choices)]
    markup = [one for choice in choices for one in _annotated(choice, draft.limits.markup)]
    truncated = draft.budget.overdrawn or dropped_events > 0
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


def _annotated(choice: Choice, limit: int) -> list[Markup]:
    """Find what is spelled out in a choice's texts, and list the calls in it behind its items."""
    markup: list[Markup] = []
    calls: list[Item] = []
    ordinal = sum(isinstance(item, ToolCall) for item in choice.items)
    for at, item in enumerate(choice.items):
        if not isinstance(item, Text | Reasoning):
            continue
        for found in found_in(item.text, limit - len(markup)):
            markup.append(Markup(found.dialect, at, found.start, found.end, found.complete, choice.index))
            if isinstance(item, Text):
                calls += [
                    _derived(ordinal + len(calls) + n, *call) for n, call in enumerate(found.calls[:limit])
                ]
    choice.items.extend(calls)
    return markup


def _derived(ordinal: int, name: str, arguments: str) -> ToolCall:
    state: ArgumentsState = "valid-json" if is_json(arguments) else "invalid-json" if arguments else "empty"
    return ToolCall(ordinal, None, None, None, name, Arguments(arguments, state), "markup")
