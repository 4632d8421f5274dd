"""What the lens shows: actions with the chain from their execution to requests, and facts of the other types."""

from datetime import datetime
from typing import Generic, TypeVar

import msgspec

from policies.chain import Row
from policies.facts import (
    Change,
    Check,
    Deviation,
    Form,
    ItemKind,
    ItemState,
    Link,
    Stage,
    Status,
    Unit,
    Verdict,
)
from store.services import facts
from store.services.facts import CoverageFact, DeliveryFact, OccurrenceFact, StageFact, SurfaceFact
from store.services.paging import Page
from store.services.receipt_view import minted_at
from store.tables.facts import ToldFact

Item = TypeVar("Item")


class ViewItem(msgspec.Struct, frozen=True):
    """In which form a result stands, and of a partial one which part: `start` to `stop` (not included) of `total`."""

    form: Form
    unit: Unit | None
    start: int | None
    stop: int | None
    total: int | None
    source_whole: bool | None


class ResultView(msgspec.Struct, frozen=True):
    """One view that was made of one version of a result."""

    result_version: int | None
    view: ViewItem


class StageItem(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of an action; `at` is the teller's clock, `told_at` ours."""

    fact_id: str
    at: datetime
    told_at: datetime
    stage: Stage
    status: Status
    execution: int | None
    result_version: int | None
    schema_version: int | None
    code: str | None
    retryable: bool | None
    duration_ms: int | None
    arguments_changed: bool
    view: ViewItem | None


class OccurrenceItem(msgspec.Struct, frozen=True, kw_only=True):
    """One object of a request. One that is not bound has the action's call id, and says no more than that."""

    fact_id: str
    at: datetime
    told_at: datetime
    position: int
    link: Link
    result_version: int | None
    call_id: str | None
    view: ViewItem


class RequestItem(msgspec.Struct, frozen=True, kw_only=True):
    """One submitted request that held something of the action, and which row applies to it."""

    exchange_id: str
    attempt_id: str | None
    request: int
    row: Row
    occurrences: list[OccurrenceItem]


class ActionItem(msgspec.Struct, frozen=True, kw_only=True):
    """One action; null is what nobody told us. `stages` has the last status of each, and counts no two as one."""

    action_id: str
    tool: str | None
    call_id: str | None
    executions: int | None
    stages: dict[Stage, Status]
    occurrences: int
    row: Row
    first_told_at: datetime


class ActionView(ActionItem, frozen=True, kw_only=True):
    """One action alone; `facts_full`: its run had as many facts as it may have, and later ones are not there."""

    run_id: str
    observed_at: datetime
    facts_full: bool
    steps: list[StageItem]
    views: list[ResultView]
    requests: list[RequestItem]


class DifferenceItem(msgspec.Struct, frozen=True):
    """How one tool differs from what was admitted; `now` is its new name, `at` where in its schema."""

    change: Change
    tool: str
    now: str | None
    at: str | None


class SurfaceItem(msgspec.Struct, frozen=True, kw_only=True):
    """One check of a request's tools; `more` counts the differences that are not named."""

    fact_id: str
    at: datetime
    told_at: datetime
    exchange_id: str
    attempt_id: str | None
    check: Check
    verdict: Verdict
    tools: int
    differences: list[DifferenceItem]
    more: int


class CoverageItem(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a file was read by then: ranges `[start, stop)`, and how far it goes from 0 without a gap."""

    fact_id: str
    at: datetime
    told_at: datetime
    file_id: str
    frontier: int
    whole: bool
    ranges: list[tuple[int, int]]
    more: int
    size: int | None
    one_version: bool
    action_id: str | None
    deviations: list[Deviation]


class DeliveryItem(msgspec.Struct, frozen=True, kw_only=True):
    """Whether one thing that was promised was there by then."""

    fact_id: str
    at: datetime
    told_at: datetime
    item_id: str
    kind: ItemKind
    state: ItemState
    code: str | None
    size: int | None
    exit_code: int | None
    action_id: str | None


class FactCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many facts a run has, of how many actions, and of each type that has a list."""

    facts: int
    actions: int
    surface: int
    coverage: int
    delivery: int
    full: bool


class Told(msgspec.Struct, Generic[Item], frozen=True):
    """A page, and whether its run had as many facts as it may have."""

    page: Page[Item]
    full: bool


def view_item(view: facts.View) -> ViewItem:
    """Return a view as it is shown."""
    return ViewItem(view.form, view.unit, view.start, view.stop, view.total, view.source_whole)


def stage_item(row: ToldFact, fact: StageFact) -> StageItem:
    """Return a stage as it is shown."""
    return StageItem(
        fact_id=fact.fact,
        at=fact.at,
        told_at=minted_at(row.fact_uid),
        stage=fact.stage,
        status=fact.status,
        execution=fact.execution,
        result_version=fact.result_version,
        schema_version=fact.schema_version,
        code=fact.code,
        retryable=fact.retryable,
        duration_ms=fact.duration_ms,
        arguments_changed=fact.arguments_changed,
        view=None if fact.view is None else view_item(fact.view),
    )


def occurrence_item(row: ToldFact, fact: OccurrenceFact) -> OccurrenceItem:
    """Return an object of a request as it is shown."""
    return OccurrenceItem(
        fact_id=fact.fact,
        at=fact.at,
        told_at=minted_at(row.fact_uid),
        position=fact.position,
        link=fact.link,
        result_version=fact.result_version,
        call_id=fact.call_id,
        view=view_item(fact.view),
    )


def surface_item(row: ToldFact, fact: SurfaceFact) -> SurfaceItem:
    """Return a check of tools as it is shown."""
    return SurfaceItem(
        fact_id=fact.fact,
        at=fact.at,
        told_at=minted_at(row.fact_uid),
        exchange_id=fact.exchange,
        attempt_id=fact.attempt,
        check=fact.check,
        verdict=fact.verdict,
        tools=fact.tools,
        differences=[DifferenceItem(each.change, each.tool, each.now, each.at) for each in fact.differences],
        more=fact.more,
    )


def coverage_item(row: ToldFact, fact: CoverageFact) -> CoverageItem:
    """Return what was read of a file as it is shown."""
    return CoverageItem(
        fact_id=fact.fact,
        at=fact.at,
        told_at=minted_at(row.fact_uid),
        file_id=fact.file,
        frontier=fact.frontier,
        whole=fact.whole,
        ranges=list(fact.ranges),
        more=fact.more,
        size=fact.size,
        one_version=fact.one_version,
        action_id=fact.action,
        deviations=list(fact.deviations),
    )


def delivery_item(row: ToldFact, fact: DeliveryFact) -> DeliveryItem:
    """Return an acceptance item as it is shown."""
    return DeliveryItem(
        fact_id=fact.fact,
        at=fact.at,
        told_at=minted_at(row.fact_uid),
        item_id=fact.item,
        kind=fact.kind,
        state=fact.state,
        code=fact.code,
        size=fact.size,
        exit_code=fact.exit_code,
        action_id=fact.action,
    )
