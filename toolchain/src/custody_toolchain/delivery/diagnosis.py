"""Six questions that locate a failure: plan, actions, allowed, started, result back, aims checked."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from custody_toolchain.delivery.items import Delivered
from custody_toolchain.facts import Fact, ItemState, Stage, StageFact, Status


class Known(StrEnum):
    """An answer to one question. Unknown is not no: what nobody recorded may have happened."""

    YES = "yes"
    PARTLY = "partly"
    NO = "no"
    UNKNOWN = "unknown"


class Diagnosis(msgspec.Struct, frozen=True):
    """The six answers, the numbers that they stand on, and the question to look at first (None: all are yes).

    `actions` counts those of which there is a fact; `planned` those of the plan, None where nobody said.
    `aims_checked` is yes where all items are met, partly where they were checked and some are not.
    """

    plan: Known
    enough_actions: Known
    allowed: Known
    started: Known
    result_back: Known
    aims_checked: Known
    planned: int | None
    actions: int
    actions_allowed: int
    actions_started: int
    actions_returned: int
    items_met: int | None
    items: int | None

    @property
    def look_first(self) -> str | None:
        """The first question whose answer is no or partly; if there is none, the first that nobody can answer."""
        for wanted in ({Known.NO, Known.PARTLY}, {Known.UNKNOWN}):
            for question in QUESTIONS:
                if getattr(self, question) in wanted:
                    return question
        return None


QUESTIONS = ("plan", "enough_actions", "allowed", "started", "result_back", "aims_checked")


def diagnose(
    facts: Iterable[Fact], *, planned: int | None = None, delivered: Delivered | None = None
) -> Diagnosis:
    """Answer the six questions from the facts of one turn or run, the plan's size, and the last check of its items.

    `planned` 0: it was looked for a plan, and there was none. `delivered` None: nobody checked the items.
    """
    stages = [fact for fact in facts if isinstance(fact, StageFact)]
    actions = {fact.action for fact in stages}
    replays = [fact for fact in stages if (fact.stage, fact.status) == (Stage.REPLAY, Status.REPLAYED)]
    # A refusal is replayed as well: only what was executed was let in, and only what has a result gave one.
    executed = {fact.action for fact in replays if fact.execution is not None}
    allowed = _having(stages, Stage.ADMISSION, {Status.ADMITTED}) | executed
    started = _having(stages, Stage.EXECUTION, set(Status)) | executed
    held = {fact.action for fact in replays if fact.result_version is not None}
    returned = _having(stages, Stage.PROJECTION, {Status.PROJECTED}) | held
    met = None if delivered is None else sum(item.state is ItemState.MET for item in delivered.items)
    return Diagnosis(
        plan=Known.UNKNOWN if planned is None else Known.YES if planned else Known.NO,
        enough_actions=_share(len(actions), planned) if actions else Known.UNKNOWN,
        allowed=_share(len(allowed), len(actions)),
        started=_share(len(started), len(actions)),
        result_back=_share(len(returned), len(actions)),
        aims_checked=_aims(delivered),
        planned=planned,
        actions=len(actions),
        actions_allowed=len(allowed),
        actions_started=len(started),
        actions_returned=len(returned),
        items_met=met,
        items=None if delivered is None else len(delivered.items),
    )


def _aims(delivered: Delivered | None) -> Known:
    if delivered is None:
        return Known.UNKNOWN
    return Known.YES if delivered.state is ItemState.MET else Known.PARTLY


def _having(stages: list[StageFact], stage: Stage, statuses: set[Status]) -> set[str]:
    return {fact.action for fact in stages if fact.stage is stage and fact.status in statuses}


def _share(count: int, of: int | None) -> Known:
    """Say how many of so many; of none, and of an unknown number, nothing is known."""
    if not of:
        return Known.UNKNOWN
    if count >= of:
        return Known.YES
    return Known.PARTLY if count else Known.NO
