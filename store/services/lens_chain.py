"""One action out of its facts: the policy's words about it, and everything that they rest on, in order."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from policies.chain import Seen, Step, executions, last_of, row
from policies.facts import Link
from store.services import facts
from store.services.facts import OccurrenceFact, StageFact
from store.services.lens_views import (
    ActionItem,
    RequestItem,
    ResultView,
    occurrence_item,
    stage_item,
    view_item,
)
from store.services.receipt_view import minted_at
from store.tables.facts import ToldFact

StageRow = tuple[ToldFact, StageFact]
SeenRow = tuple[ToldFact, OccurrenceFact]


@dataclass(slots=True)
class Chain:
    """What was told of one action, in the order told; `loose` are objects of its calls that are bound to nothing."""

    action: str
    stages: list[StageRow] = field(default_factory=list)
    bound: list[SeenRow] = field(default_factory=list)
    loose: list[SeenRow] = field(default_factory=list)
    first: ToldFact | None = None

    @property
    def seen(self) -> list[SeenRow]:
        """Everything of it that stood in requests."""
        return [*self.bound, *self.loose]

    @property
    def steps(self) -> list[Step]:
        """Its stages, as the policy takes them."""
        return [Step(fact.stage, fact.status, fact.execution) for _, fact in self.stages]

    def call_ids(self) -> list[str | None]:
        """Return what each fact of it says of the model's id of its call."""
        return [fact.call_id for _, fact in self.stages] + [fact.call_id for _, fact in self.bound]

    def calls(self) -> set[str]:
        """Return the model's ids of its calls."""
        return {call for call in self.call_ids() if call is not None}


def chains(told: Iterable[ToldFact], unbound: Sequence[ToldFact]) -> dict[str, Chain]:
    """Sort what was told of actions by action; both in the order told."""
    found: dict[str, Chain] = {}
    for each in told:
        fact = facts.decode(each.body)
        action = getattr(fact, "action", None)
        chain = found.setdefault(action or "", Chain(action or "", first=each))
        if isinstance(fact, StageFact):
            chain.stages.append((each, fact))
        elif isinstance(fact, OccurrenceFact):
            chain.bound.append((each, fact))
    _add_loose(found, unbound)
    return found


def _add_loose(found: dict[str, Chain], unbound: Sequence[ToldFact]) -> None:
    """Say of an unbound object which calls it may be of: by the provider's own id, never by what it looks like."""
    of_call: dict[str, list[Chain]] = defaultdict(list)
    for chain in found.values():
        for call in chain.calls():
            of_call[call].append(chain)
    for each in unbound if of_call else ():
        fact = facts.decode(each.body)
        if isinstance(fact, OccurrenceFact) and fact.link is not Link.BOUND:
            for chain in of_call.get(fact.call_id or "", ()):
                chain.loose.append((each, fact))


def action_fields(chain: Chain) -> dict[str, object]:
    """Return what an action shows in a list and alone."""
    steps = chain.steps
    return {
        "action_id": chain.action,
        "tool": next((fact.tool for _, fact in reversed(chain.stages)), None),
        "call_id": next((call for call in chain.call_ids() if call is not None), None),
        "executions": executions(steps),
        "stages": last_of(steps),
        "occurrences": len(chain.bound),
        "row": row(steps, _objects(chain.seen)),
        "first_told_at": None if chain.first is None else minted_at(chain.first.fact_uid),
    }


def action_item(chain: Chain) -> ActionItem:
    """Return an action as a list shows it."""
    return ActionItem(**action_fields(chain))  # type: ignore[arg-type] # by name, as they stand there


def chain_fields(chain: Chain) -> dict[str, object]:
    """Return what an action shows alone besides: its stages, what was made of its result, and who was given it."""
    return {
        "steps": [stage_item(each, fact) for each, fact in chain.stages],
        "views": _views(chain),
        "requests": _requests(chain),
    }


def _views(chain: Chain) -> list[ResultView]:
    views = [
        ResultView(fact.result_version, view_item(fact.view))
        for _, fact in chain.stages
        if fact.view is not None
    ]
    return list(dict.fromkeys(views))


def _requests(chain: Chain) -> list[RequestItem]:
    by_request: dict[tuple[int, str, str | None], list[SeenRow]] = defaultdict(list)
    for each, fact in chain.seen:
        by_request[fact.request, fact.exchange, fact.attempt].append((each, fact))
    return [
        RequestItem(
            exchange_id=exchange,
            attempt_id=attempt,
            request=request,
            row=row(chain.steps, _objects(found)),
            occurrences=[occurrence_item(*each) for each in sorted(found, key=lambda each: each[1].position)],
        )
        for (request, exchange, attempt), found in sorted(
            by_request.items(), key=lambda each: (each[0][0], each[0][1], each[0][2] or "")
        )
    ]


def _objects(seen: Iterable[SeenRow]) -> list[Seen]:
    return [Seen(fact.link, fact.view.form) for _, fact in seen]
