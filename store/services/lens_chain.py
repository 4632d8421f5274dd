"""One action out of its facts: the policy's words about it, and everything that they rest on, in order."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from policies.chain import Seen, Step, executions, last_of, row, rows
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
class Loose:
    """Objects of one call that are bound to nothing, and what they come to: all actions of the call share them."""

    rows: list[SeenRow] = field(default_factory=list)
    seen: set[Seen] = field(default_factory=set)


@dataclass(slots=True)
class Chain:
    """What was told of one action, in the order told; `loose` are the objects of its calls, a call each."""

    action: str
    stages: list[StageRow] = field(default_factory=list)
    bound: list[SeenRow] = field(default_factory=list)
    loose: list[Loose] = field(default_factory=list)
    first: ToldFact | None = None

    @property
    def seen(self) -> list[SeenRow]:
        """Everything of it that stood in requests."""
        return [*self.bound, *(each for of in self.loose for each in of.rows)]

    @property
    def objects(self) -> set[Seen]:
        """What that comes to, as the policy takes it."""
        return _objects(self.bound).union(*(of.seen for of in self.loose))

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
    of_call: dict[str, Loose] = defaultdict(Loose)
    for chain in found.values():
        chain.loose = [of_call[call] for call in sorted(chain.calls())]
    for each in unbound if of_call else ():
        fact = facts.decode(each.body)
        if isinstance(fact, OccurrenceFact) and fact.link is not Link.BOUND and fact.call_id in of_call:
            of_call[fact.call_id].rows.append((each, fact))
            of_call[fact.call_id].seen.add(_object(fact))


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
        "row": row(steps, chain.objects),
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
    in_order = sorted(by_request.items(), key=lambda each: (each[0][0], each[0][1], each[0][2] or ""))
    decided = rows(chain.steps, (_objects(found) for _, found in in_order))
    return [
        RequestItem(
            exchange_id=exchange,
            attempt_id=attempt,
            request=request,
            row=said,
            occurrences=[occurrence_item(*each) for each in sorted(found, key=lambda each: each[1].position)],
        )
        for ((request, exchange, attempt), found), said in zip(in_order, decided, strict=True)
    ]


def _objects(seen: Iterable[SeenRow]) -> set[Seen]:
    return {_object(fact) for _, fact in seen}


def _object(fact: OccurrenceFact) -> Seen:
    return Seen(fact.link, fact.view.form)
