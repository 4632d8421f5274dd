"""Whether tools may be used now: only by facts of their owner, bound to where they hold."""

from collections.abc import Callable
from enum import StrEnum
from time import monotonic

import msgspec

from custody_toolchain.ids import checked_id


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """Of what a fact is told: one invocation, over one connection, of one run in one scope."""

    run: str
    scope: str
    invocation: str
    connection: str

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            checked_id(getattr(self, name), f"a {name}'s id")


class OwnerFact(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner says; None is not said.

    `search_budget` is what is left; `deadline` is a reading of the clock, `time.monotonic` unless another is given.
    """

    where: Where
    search_budget: int | None = None
    deadline: float | None = None
    unavailable: frozenset[str] | None = None


class Use(StrEnum):
    """What a tool is wanted for."""

    SEARCH = "search"
    # Reading what is held already spends nothing of the search budget.
    READ_HELD = "read_held"


class Unavailable(StrEnum):
    """Why not now."""

    DEADLINE_PASSED = "deadline_passed"
    NOT_AVAILABLE = "not_available"
    SEARCH_BUDGET_SPENT = "search_budget_spent"


class Availability:
    """What the owner last said of one invocation.

    Promised: nothing but an OwnerFact of exactly this place changes it; what some tool's result says of budgets, of the
    same name or not, is content. Not promised: that anything is enforced, or that the tools shown are others: a tool
    that cannot be used now is shown as it was admitted, until its owner admits others.
    """

    def __init__(self, where: Where, clock: Callable[[], float] = monotonic) -> None:
        self.where = where
        self._clock = clock
        self._search_budget: int | None = None
        self._deadline: float | None = None
        self._unavailable: frozenset[str] = frozenset()

    def tell(self, fact: OwnerFact) -> bool:
        """Take what the owner says; False, and nothing changes, if it is of another place. Nothing else is taken."""
        if type(fact) is not OwnerFact:
            raise TypeError("only an OwnerFact says what is available")
        if fact.where != self.where:
            return False
        if fact.search_budget is not None:
            self._search_budget = fact.search_budget
        if fact.deadline is not None:
            self._deadline = fact.deadline
        if fact.unavailable is not None:
            self._unavailable = fact.unavailable
        return True

    def refusal(self, use: Use, tool: str | None = None) -> Unavailable | None:
        """Return why a use is not possible now; None if nothing that was said forbids it."""
        if self._deadline is not None and self._clock() >= self._deadline:
            return Unavailable.DEADLINE_PASSED
        if tool is not None and tool in self._unavailable:
            return Unavailable.NOT_AVAILABLE
        if use is Use.SEARCH and self._search_budget is not None and self._search_budget <= 0:
            return Unavailable.SEARCH_BUDGET_SPENT
        return None
