"""How many bytes of bodies one process may hold at once, so that two thousand slow senders cannot take its memory.

Nor can those of one scope keep the others out: each has its share of what the others leave free.
"""

from types import TracebackType
from typing import Final, Self
from uuid import UUID

from policies.capacity import admit_body
from policies.decisions import Refuse
from policies.reasons import Reason
from store.errors import Refused

# Room for a body of which nobody said how long it is, at first and each time that it outgrew what it has.
STEP_BYTES: Final = 64 * 1024


class BodyBudget:
    """How many bytes of bodies this process may hold at once, over all scopes. Nobody waits for room."""

    __slots__ = ("_of_scope", "held_bytes", "total_bytes")

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.held_bytes = 0
        # Of every scope that ever sent a body here: looked up once a body.
        self._of_scope: dict[UUID, _OfScope] = {}

    def room(self, scope: UUID, declared_bytes: int | None, most_bytes: int) -> "Room":
        """Return room for a body of a scope, to be held for a block; a body without a length has it step by step.

        Refused (capacity_exceeded) at once where the block begins, or later when such a body outgrows what is free.
        """
        of_scope = self._of_scope.get(scope)
        if of_scope is None:
            of_scope = self._of_scope[scope] = _OfScope()
        first_bytes = min(STEP_BYTES, most_bytes) if declared_bytes is None else declared_bytes
        return Room(self, of_scope, first_bytes, most_bytes)


class _OfScope:
    """What the bodies of one scope hold."""

    __slots__ = ("held_bytes",)

    def __init__(self) -> None:
        self.held_bytes = 0


class Room:
    """Room for one body, held for a block."""

    __slots__ = ("_budget", "_bytes", "_of_scope", "most_bytes")

    def __init__(self, budget: BodyBudget, of_scope: _OfScope, first_bytes: int, most_bytes: int) -> None:
        self._budget = budget
        self._of_scope = of_scope
        self._bytes = first_bytes
        self.most_bytes = most_bytes

    def hold(self, size: int) -> None:
        """Hold the first `size` bytes of the body; Refused (part_too_large, capacity_exceeded) where they cannot be."""
        if size <= self._bytes:
            return
        if size > self.most_bytes:
            raise Refused(Reason.PART_TOO_LARGE)
        whole = min(self.most_bytes, -(-size // STEP_BYTES) * STEP_BYTES)
        self._take(whole - self._bytes, whole)
        self._bytes = whole

    def _take(self, more: int, whole: int) -> None:
        """Take `more` bytes for the body, which then has `whole`, or raise Refused."""
        budget, of_scope = self._budget, self._of_scope
        others = budget.held_bytes - of_scope.held_bytes
        decision = admit_body(whole, of_scope.held_bytes + more - whole, others, budget.total_bytes)
        if isinstance(decision, Refuse):
            raise Refused(decision.reason)
        of_scope.held_bytes += more
        budget.held_bytes += more

    def __enter__(self) -> Self:
        self._take(self._bytes, self._bytes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._of_scope.held_bytes -= self._bytes
        self._budget.held_bytes -= self._bytes
